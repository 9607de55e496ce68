"""Duties of ranks under torch: a script in the style of Horovod, on two ranks."""

import time

import torch
from torch import nn

import collalgo.integrations.horovod as hvd
from collalgo import MismatchError


def raises(kind, call, words):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)


def network():
    torch.manual_seed(hvd.rank())
    return nn.Sequential(
        nn.Linear(8, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1)
    )


def trained_by(wrap, steps=3, passes=1, **others):
    """The parameters after some steps on batches of this rank."""
    model = network()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model, optimizer = wrap(model, optimizer, **others)
    batches = torch.Generator().manual_seed(7 + hvd.rank())
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(passes):
            loss = model(torch.randn(4, 8, generator=batches)).square().mean()
            (loss / passes).backward()
        optimizer.step()
    return [each.detach() for each in model.parameters()]


def by_hvd(model, optimizer, **others):
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    named = model.named_parameters()
    return model, hvd.DistributedOptimizer(optimizer, named_parameters=named, **others)


def by_ddp(model, optimizer):
    return nn.parallel.DistributedDataParallel(model), optimizer


def largest_difference(found, expected):
    pairs = zip(found, expected, strict=True)
    return max(float((a - b).abs().max()) for a, b in pairs)


def trainings():
    expected = trained_by(by_ddp)
    assert largest_difference(trained_by(by_hvd), expected) == 0
    predivided = trained_by(by_hvd, gradient_predivide_factor=2.0)
    assert largest_difference(predivided, expected) == 0  # a power of two
    half = trained_by(by_hvd, compression=hvd.Compression.fp16)
    assert 0 < largest_difference(half, expected) < 1e-3
    assert largest_difference(trained_by(by_hvd, op=hvd.Sum), expected) > 1e-3
    twice = trained_by(by_hvd, passes=2, backward_passes_per_step=2)
    assert len({str(each) for each in hvd.allgather_object(twice[0].tolist())}) == 1


class Branches(nn.Module):
    """Each rank uses a layer of its own, and all use the last one."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(3))

    def forward(self, x):
        return self.layers[2](self.layers[hvd.rank()](x)).sum()


def step_in_parts(model, optimizer):
    model(torch.ones(1, 2)).backward()
    raises(RuntimeError, optimizer.zero_grad, "between backward() and step()")
    optimizer.synchronize()
    assert all(each.weight.grad.abs().sum() > 0 for each in model.layers)
    with optimizer.skip_synchronize():
        optimizer.step()
    optimizer.zero_grad()


def steps_of_an_optimizer():
    model = Branches()
    hvd.broadcast_parameters(list(model.parameters()), root_rank=0)
    adam = torch.optim.Adam(model.parameters())
    optimizer = hvd.DistributedOptimizer(adam, list(model.named_parameters()))
    assert isinstance(optimizer, torch.optim.Adam)
    step_in_parts(model, optimizer)
    step_in_parts(model, optimizer)
    same = hvd.allgather_object([each.tolist() for each in model.parameters()])
    assert all(each == same[0] for each in same)
    model(torch.ones(1, 2)).backward()
    again = model(torch.ones(1, 2)).backward
    raises(RuntimeError, again, "more than 1 times")
    optimizer.load_state_dict(adam.state_dict())
    named = [("w", each) for each in model.parameters()]
    twice = lambda: hvd.DistributedOptimizer(adam, named)  # noqa: E731
    raises(ValueError, twice, "'w' twice")


def reductions():
    rank, size = hvd.rank(), hvd.size()
    x = torch.full((3,), float(rank + 1))
    assert hvd.allreduce(x).tolist() == [(size + 1) / 2] * 3
    assert hvd.allreduce(torch.tensor(1.5 * rank), name="loss").item() == 0.75
    assert hvd.allreduce(x, op=hvd.Max, prescale_factor=2.0)[0] == 2 * size
    assert hvd.allreduce(x, average=False, postscale_factor=0.5)[0] == 1.5
    handle = hvd.allreduce_async_(x, op=hvd.Sum)
    while not hvd.poll(handle):
        time.sleep(0)
    assert hvd.synchronize(handle) is x
    assert x.tolist() == [3.0] * 3
    pair = [torch.ones(2), torch.ones(1, dtype=torch.int64)]
    pair = hvd.grouped_allreduce(pair, op=hvd.Sum)
    assert [each.tolist() for each in pair] == [[2.0, 2.0], [2]]
    mine = hvd.reducescatter(torch.arange(4.0), op=hvd.Sum)
    assert mine.tolist() == [[0.0, 2.0], [4.0, 6.0]][rank]
    pair = [torch.arange(4.0), torch.ones(2)]
    later = hvd.synchronize(hvd.grouped_reducescatter_async(pair, op=hvd.Sum))
    for found in hvd.grouped_reducescatter(pair, op=hvd.Sum), later:
        assert [each.tolist() for each in found] == [mine.tolist(), [2.0]]


def grouped_later(tensors):
    handle = hvd.grouped_allgather_async(tensors)
    found = hvd.synchronize(handle)
    assert hvd.poll(handle)
    return found


def moves():
    rank = hvd.rank()
    rows = hvd.allgather(torch.full((rank + 1, 2), rank))
    assert rows.tolist() == [[0, 0], [1, 1], [1, 1]]
    many = [torch.full((rank + 1,), rank), torch.tensor(7)]
    for found in hvd.grouped_allgather(many), grouped_later(many):
        assert [each.tolist() for each in found] == [[0, 1, 1], [7, 7]]
    assert hvd.broadcast(torch.tensor(rank), 1).item() == 1
    got, counts = hvd.alltoall(torch.arange(3) + 10 * rank, [1, 2] if rank else [2, 1])
    assert got.tolist() == ([2, 11, 12] if rank else [0, 1, 10])
    assert counts.tolist() == ([1, 2] if rank else [2, 1])
    assert hvd.broadcast_object({"from": rank}, root_rank=1) == {"from": 1}


def gradients():
    rank = hvd.rank()

    def of(call, rows=2):
        x = torch.ones(rows, requires_grad=True)
        result = call(x)
        (result * torch.arange(1.0, len(result) + 1)).sum().backward()
        return x.grad.tolist()

    assert of(lambda x: hvd.allreduce(x, op=hvd.Sum)) == [2.0, 4.0]
    assert of(hvd.allgather, rank + 1) == [[1.0], [2.0, 3.0]][rank]
    grouped = of(lambda x: hvd.grouped_allgather([x])[0], rank + 1)
    assert grouped == of(hvd.allgather, rank + 1)
    assert of(lambda x: hvd.broadcast(x, 1)) == [[0.0, 0.0], [1.0, 2.0]][rank]
    assert of(hvd.alltoall) == [[1.0, 1.0], [2.0, 2.0]][rank]
    assert of(lambda x: hvd.alltoall(x, [1, 1])[0]) == [[1.0, 1.0], [2.0, 2.0]][rank]
    assert of(lambda x: hvd.reducescatter(x, op=hvd.Sum)) == [1.0, 1.0]


def what_is_absent():
    x = torch.ones(1)
    raises(NotImplementedError, lambda: hvd.init([0]), "comm.group(ranks)")
    raises(NotImplementedError, lambda: hvd.allreduce(x, op=hvd.Adasum), "Adasum")
    raises(ValueError, lambda: hvd.allreduce(x, op="argmin"), "are ranks")
    raises(NotImplementedError, lambda: hvd.barrier(process_set=1), "process_set")
    raises(ValueError, lambda: hvd.allreduce(x, True, op=hvd.Sum), "not both")
    raises(AttributeError, lambda: hvd.ProcessSet, "comm.group(ranks)")
    raises(AttributeError, lambda: hvd.elastic.ElasticSampler, "elastic.Sampler")
    raises(TypeError, lambda: hvd.broadcast_parameters(3, 0), "state_dict()")
    embedding = nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(embedding.parameters(), lr=1.0)
    refusing = hvd.DistributedOptimizer(optimizer)
    step = embedding(torch.tensor([1])).sum().backward
    raises(NotImplementedError, step, "sparse_as_dense=True")
    del refusing


def elastic_steps():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=0)
    resets = []
    state.register_reset_callbacks([lambda: resets.append(1)])

    @hvd.elastic.run
    def train(state, most):
        while state.batch < most:
            state.batch += 1
            state.commit()
            state.check_host_updates()
        return hvd.size()

    assert train(state, 3) == 2
    assert (state.batch, state.revision, resets) == (3, 3, [])
    state.on_reset()
    assert resets == [1]


def ends():
    """Ranks that join do not contribute zeros: that is an error on both."""
    assert hvd.join() in (0, 1)
    last = hvd.join if hvd.rank() else lambda: hvd.allreduce(torch.ones(1))
    raises(MismatchError, last, "allgather")
    assert issubclass(MismatchError, hvd.HorovodInternalError)
    hvd.shutdown()
    raises(ValueError, hvd.rank, "call hvd.init() first")


def begins():
    raises(ValueError, hvd.size, "call hvd.init() first")
    hvd.init()
    assert hvd.is_initialized()
    assert (hvd.size(), hvd.local_size(), hvd.cross_size()) == (2, 2, 1)
    assert hvd.local_rank() == hvd.rank()
    assert hvd.cross_rank() == 0
    assert hvd.is_homogeneous()
    assert not hvd.mpi_enabled()


def style_of_horovod():
    for part in (
        begins, reductions, moves, gradients, trainings, steps_of_an_optimizer,
        elastic_steps, what_is_absent, ends,
    ):  # fmt: skip
        part()
