"""Duties of ranks under torch: what is built on its collectives."""

import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as saved
from torch import nn
from torch.distributed import _functional_collectives as functions
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    set_model_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from tests.support.torch_training import network
from tests.support.torch_values import equal, values


def of_functions(x):
    """Collectives that a compiler sees, one on the results of another."""
    world = dist.group.WORLD
    y = functions.all_reduce(2 * x, "sum", world)
    table = functions.all_gather_tensor(y, 0, world)
    part = functions.reduce_scatter_tensor(table, "sum", 0, world)
    return y + part, functions.all_to_all_single(table, None, None, world)


def in_place(x):
    dist.all_reduce(x)
    return x + 1


def compiled():
    """A compiled function, without a break at a collective, gives what it gave."""
    for function in of_functions, in_place:
        expected = function(values(dist.get_rank()))
        made = torch.compile(function, backend="aot_eager", fullgraph=True)
        found = made(values(dist.get_rank()))
        torch.testing.assert_close(found, expected, rtol=0, atol=0)


def objects_at_a_root():
    rank, size = dist.get_rank(), dist.get_world_size()
    for root in 0, size - 1:
        found = [None] * size if rank == root else None
        dist.gather_object({"rank": rank}, found, root)
        if rank == root:
            assert found == [{"rank": each} for each in range(size)]
        mine = [None]
        dist.scatter_object_list(mine, found, root)
        assert mine == [{"rank": rank}]
    if rank == 0:
        dist.send_object_list(["sent", 7], 1)
    elif rank == 1:
        found = [None, None]
        dist.recv_object_list(found, 0)
        assert found == ["sent", 7]


def saved_in_the_background():
    folder = [tempfile.mkdtemp()] if dist.get_rank() == 0 else [None]
    dist.broadcast_object_list(folder)
    saved.async_save({"x": values(3)}, checkpoint_id=folder[0]).result()
    state = {"x": torch.zeros(6)}
    saved.load(state, checkpoint_id=folder[0])
    equal(state["x"], values(3))


def told_by_the_first():
    """All ranks get the parameters of rank 0, where the others have none."""
    model, expected = network(), network().state_dict()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    state = expected if dist.get_rank() == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    set_model_state_dict(model, state, options=options)
    for name, parameter in model.state_dict().items():
        equal(parameter, expected[name])


def tensor_parallel():
    """Columns of one layer and rows of the next give the sums of the whole layers."""
    x, model = torch.randn(3, 8, generator=torch.Generator().manual_seed(2)), network()
    expected = model(x)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("parts",))
    assert isinstance(model, nn.Sequential)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    model = parallelize_module(model, mesh["parts"], plan)
    torch.testing.assert_close(model(x), expected)
    made = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(made(x), expected)
