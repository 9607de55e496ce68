"""The backend of torch on tensors of a GPU that there is not: a script, run by itself.

Tensors say that they are on ``cuda:0``; their memory and the streams are those of the
stand-in, and streams other than the user's are slow, so that who does not wait for them
is found out. Each rank is a thread. Its calls are made on tensors of the host, too,
and must give the same.
"""

import os
import threading
import time
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import AllgatherOptions

import collalgo
from collalgo.devices import arrays
from collalgo.devices.runtime import Memory
from collalgo.integrations.torch import CollalgoGroup
from collalgo.integrations.torch.tensors import dtype_of
from tests import stand_in

SIZE = 3
GPU = torch.device("cuda", 0)


class OfThread(threading.local):
    """The stream of the user, which may be another for a while."""

    stream = None


mine = OfThread()


class Tardy(stand_in.StandIn):
    """A device of which tensors of torch are, with slow streams beside the user's."""

    slow = False

    def memory(self, buf, caller):
        if not isinstance(buf, OnGpu):
            return super().memory(buf, caller)
        pointer = stand_in.ELSEWHERE + buf.inner.data_ptr()
        return Memory(buf, pointer, tuple(buf.shape), dtype_of(buf))

    def aside(self):
        found = Tardy(self.process, self.device)
        found.failures, found.slow = self.failures, True
        return found

    def after(self, mark):
        super().after(mark)
        if self.slow:
            self.queue.put(lambda: time.sleep(0.01))


class OnGpu(torch.Tensor):
    """A tensor that says so; what torch does with it comes after its stream."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, inner.stride(), dtype=inner.dtype, device=GPU
        )

    def __init__(self, inner):
        self.inner = inner
        storage = inner.untyped_storage()
        base = stand_in.ELSEWHERE + storage.data_ptr()
        stand_in.own(base, storage.nbytes(), inner)

    def data_ptr(self):
        return self.inner.data_ptr()

    def untyped_storage(self):
        return self.inner.untyped_storage()

    def copy_(self, other):  # whose own way begins by loading CUDA
        return torch.ops.aten.copy_(self, other)

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        mine.stream.mark().synchronize()
        kwargs = {k: v for k, v in (kwargs or {}).items() if k != "device"}
        args, kwargs = torch.utils._pytree.tree_map(inner, (args, kwargs))
        return torch.utils._pytree.tree_map(outer, function(*args, **kwargs))


def inner(value):
    return value.inner if isinstance(value, OnGpu) else value


def outer(value):
    return OnGpu(value) if isinstance(value, torch.Tensor) else value


HostFuture = torch.futures.Future


class Future:
    """Of a result on streams: who waits for it lets the current stream wait."""

    def __init__(self):
        self._told = threading.Event()

    def set_result(self, value):
        self._mark, self._value = mine.stream.mark(), value
        self._told.set()

    def wait(self):
        assert self._told.wait(30)
        mine.stream.after(self._mark)
        return self._value


@contextmanager
def current(stream):
    before, mine.stream = mine.stream, stream
    yield
    mine.stream = before


os.environ["COLLALGO_ONE_KERNEL"] = "0"  # the stand-in would need it compiled
arrays.runtime_of = lambda device: mine.stream
torch.cuda.current_stream = lambda device: mine.stream
torch.cuda.Stream = lambda device: Tardy()
torch.cuda.stream = current
torch.futures.Future = lambda devices: Future() if devices else HostFuture()


def waited_for(work):
    assert work.wait()


def by_future(work):
    work.get_future().wait()


def options(kind, **fields):
    found = kind()
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def every_call(group, values, finish):
    """What all calls give: in the background with ``finish``, else at once."""
    rank, given = group.comm.rank, []

    def call(name, kind, results, *args, **fields):
        opts = options(kind, asyncOp=finish is not None, **fields)
        work = getattr(group, name)(*args, opts)
        if finish is not None:
            finish(work)
        given.extend(results)

    def calls_on(*tensors):
        return list(tensors)

    for dtype in (torch.float32, torch.bfloat16, torch.int64):

        def ours(count=6, dtype=dtype):
            return values((torch.arange(count) + 2 * rank).to(dtype))

        x = calls_on(ours())
        call("allreduce", dist.AllreduceOptions, x, x)
        x = calls_on(ours())
        call("broadcast", dist.BroadcastOptions, x, x, rootRank=1)
        x = calls_on(ours())
        call("reduce", dist.ReduceOptions, x if rank == 1 else [], x, rootRank=1)
        apart = [ours(2), ours(2), ours(2)]
        call("allgather", AllgatherOptions, apart, [apart], [ours(2)])
        out = ours()
        call("all_gather_single", AllgatherOptions, [out], out, ours(2))
        apart = [ours(2), ours(2), ours(2)]
        lists = [apart] if rank == 0 else []
        call("gather", dist.GatherOptions, apart, lists, [ours(2)], rootRank=0)
        out, parts = ours(2), [[ours(2) for _ in range(SIZE)]]
        call("scatter", dist.ScatterOptions, [out], [out],
             parts if rank == 0 else [], rootRank=0)  # fmt: skip
        out, uneven = ours(rank + 1), [ours(i + 1) for i in range(SIZE)]
        call("reduce_scatter", dist.ReduceScatterOptions, [out], [out], [uneven])
        out = ours(2)
        call("reduce_scatter_single", dist.ReduceScatterOptions, [out], out, ours())
        out = ours(3 * (rank + 1))
        call("all_to_all_single", dist.AllToAllOptions, [out], out, ours(6),
             [rank + 1] * SIZE, [1, 2, 3])  # fmt: skip
        outs, ins = [[ours(2) for _ in range(SIZE)] for _ in range(2)]
        call("alltoall", dist.AllToAllOptions, outs, outs, ins)

    scaled = dist._make_nccl_premul_sum(0.5)
    for dtype in (torch.float32, torch.float8_e4m3fn):
        x = calls_on(values(torch.arange(6.0).to(dtype)))
        call("allreduce", dist.AllreduceOptions, x, x, reduceOp=scaled)
    call("barrier", dist.BarrierOptions, [])
    group._start_coalescing(x[0].device)
    parts = [values(torch.full((3,), rank + 1.0)) for _ in range(2)]
    for part in parts:
        group.allreduce([part], dist.AllreduceOptions())
    (finish or waited_for)(group._end_coalescing(x[0].device))
    got = values(torch.zeros(4))
    works = [
        group.send([values(torch.full((4,), float(rank)))], (rank + 1) % SIZE, 5),
        group.recv([got], (rank - 1) % SIZE, 5),
    ]
    for work in works:
        (finish or waited_for)(work)
    return [*given, *parts, got]


def rank(comm):
    mine.stream = Tardy()
    group = CollalgoGroup(comm, dist.HashStore())
    expected = every_call(group, lambda tensor: tensor, None)
    for finish in (None, waited_for, by_future):
        found = every_call(group, OnGpu, finish)
        for i, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
            assert ours.is_cuda, i
            mine.stream.mark().synchronize()
            assert torch.equal(ours.inner, theirs), (i, ours.inner, theirs)
    return True


assert collalgo.threads(rank, SIZE) == [True] * SIZE
print("right", flush=True)
