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

import collalgo
from collalgo.engine.devices import arrays
from collalgo.engine.devices.runtime import Memory
from collalgo.integrations.torch import CollalgoGroup
from collalgo.integrations.torch.tensors import dtype_of
from tests.support.fake_cuda import StandIn
from tests.support.fake_device_memory import ELSEWHERE, own
from tests.support.torch_calls import SIZE, by_future, every_call, waited_for

GPU = torch.device("cuda", 0)


class OfThread(threading.local):
    """The stream of the user, which may be another for a while."""

    stream = None


mine = OfThread()


class Tardy(StandIn):
    """A device of which tensors of torch are, with slow streams beside the user's."""

    slow = False

    def memory(self, buf, caller):
        if not isinstance(buf, OnGpu):
            return super().memory(buf, caller)
        pointer = ELSEWHERE + buf.inner.data_ptr()
        return Memory(buf, pointer, tuple(buf.shape), dtype_of(buf))

    def aside(self, *, high_priority=False):
        found = Tardy(self.process, self.device)
        found.failures, found.slow = self.failures, True
        found.loaded = self.loaded
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
        base = ELSEWHERE + storage.data_ptr()
        own(base, storage.nbytes(), inner)

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
