"""Tensors, also in lists and dictionaries: tensors in give tensors out."""

import numpy as np
import torch

import collalgo


def structures(comm):
    tree = {"a": torch.ones(3), "b": [torch.ones(2, dtype=torch.bfloat16)]}
    assert comm.allreduce(tree) is tree
    assert tree["b"][0].tolist() == [2, 2]
    rows = comm.allgather(tree)
    assert rows["b"][0].dtype is torch.bfloat16
    assert torch.equal(rows["a"], torch.full((2, 3), 2.0))
    model = torch.nn.Linear(2, 3)
    comm.broadcast(model.state_dict())
    weights = comm.allgather(model.weight.detach())
    assert torch.equal(weights[0], weights[1])


def lists(comm):
    found = comm.alltoall([torch.ones(1), torch.ones(2, 3)])
    assert [each.shape for each in found] == [((1,), (2, 3))[comm.rank]] * 2
    assert isinstance(found[0], torch.Tensor)


def of_the_root(comm):
    mine = {"w": [torch.ones(2), np.arange(3)], 4: (torch.ones(1).bfloat16(), None)}
    found = comm.broadcast(None if comm.rank else mine, like=None)
    assert torch.equal(found["w"][0], torch.ones(2))
    assert isinstance(found["w"][1], np.ndarray)
    assert found[4][0].dtype is torch.bfloat16
    made = comm.broadcast(torch.ones(2) * (1 - comm.rank), like=torch.empty(2))
    assert torch.equal(made, torch.ones(2))


def ranks(comm):
    for dtype in (torch.float32, torch.bfloat16, torch.int8):
        x = torch.tensor([comm.rank, -comm.rank], dtype=dtype)
        for call, wanted in ((comm.allreduce, [1, 0]), (comm.scan, [comm.rank, 0])):
            found = call(x, "argmax")
            assert found.dtype is torch.int64
            assert found.tolist() == wanted


for work in (structures, lists, of_the_root, ranks):
    collalgo.threads(work, 2, timeout=60)
print("right")
