"""A stand-in for CUDA: memory that the host cannot touch, and streams that are threads.

Addresses of its memory are none that a processor takes: what reads or writes there by
itself, and not on a stream, ends the tests at once.
"""

import ctypes
import threading
import time
import uuid
from collections import defaultdict
from contextlib import contextmanager, nullcontext
from queue import SimpleQueue

import numpy as np

from collalgo._kernels.engine.devices import sources
from collalgo.engine.devices.runtime import Export, Memory
from collalgo.engine.reduction import reduction
from tests.support.oracle import dtype_of

ELSEWHERE = 1 << 47
MAPPED = 1 << 48

_owners = {}
_wires = defaultdict(SimpleQueue)


def host(pointer, nbytes):
    """The bytes at an address of the device, for its streams."""
    address = pointer & (ELSEWHERE - 1)
    return np.frombuffer((ctypes.c_uint8 * nbytes).from_address(address), np.uint8)


def own(pointer, nbytes, owner):
    """Keep memory: as a pool of CuPy does, while streams may use it."""
    _owners[pointer] = (pointer, max(nbytes, 1), owner)


class DeviceArray:
    """What a user has: an array of the stand-in."""

    def __init__(self, shape, dtype, pointer=None, owner=None):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        nbytes = int(np.prod(self.shape, dtype=int)) * self.dtype.itemsize
        if pointer is None:
            owner = np.full(max(nbytes, 1) + 64, 0xEE, np.uint8)
            pointer = ELSEWHERE + owner.ctypes.data + -owner.ctypes.data % 64
            own(pointer, nbytes, owner)
        self.pointer, self.owner, self.nbytes = pointer, owner, nbytes
        self.contiguous = self.writeable = True

    @property
    def __cuda_array_interface__(self):
        return {"data": (self.pointer, False), "shape": self.shape, "version": 3}


class Mark:
    """A place on a stream."""

    def __init__(self, runtime):
        self.runtime, self.event = runtime, threading.Event()

    @property
    def done(self):
        return self.event.is_set()

    def synchronize(self):
        while not self.event.wait(0.01):
            if self.runtime.failures:
                raise self.runtime.failures[0]


class Network:
    """The end of a rank on a network of stand-ins, which carries one by one."""

    def __init__(self, identity, rank):
        self.identity, self.rank, self.closed = identity, rank, False

    def exchange(self, stream, sends, receives):
        assert not self.closed

        def exchange():
            for pointer, nbytes, peer in sends:
                wire = _wires[self.identity, self.rank, peer]
                wire.put(host(pointer, nbytes).copy())
            for pointer, nbytes, peer in receives:
                message = _wires[self.identity, peer, self.rank].get(timeout=60)
                host(pointer, nbytes)[...] = message

        stream.put(exchange)

    def close(self):
        self.closed = True


class StandIn:
    """The device of a rank, as :class:`collalgo.engine.devices.runtime.Runtime` says.

    Parameters
    ----------
    process, device
        Which it is.
    maps
        Whether its memory can be mapped by others.
    reaches
        Whether it can read the memory of other devices and processes.
    interpreters
        What is built of ``interpret.cuh`` for the host.
    network
        What carries messages between devices, if anything; and whether it comes up.
    """

    def __init__(
        self, process=0, device=0, *, maps=True, reaches=True, interpreters=None,
        network=None, comes_up=True,
    ):  # fmt: skip
        self.network, self.comes_up, self.ends = network, comes_up, []
        self.process, self.device = process, device
        self.maps, self.reaches = maps, reaches
        self.interpreters, self.interpreted = interpreters, 0
        self.opened, self.closed = [], []
        self.queue, self.graph = SimpleQueue(), None
        self.failures, self.loaded = [], set()
        self.thread = threading.Thread(target=self._work, daemon=True)
        self.thread.start()

    # ---- for tests

    def array(self, values):
        values = np.ascontiguousarray(values)
        found = DeviceArray(values.shape, values.dtype)
        self.queue.put(lambda: self._store(found, values))
        return found

    def values(self, array):
        """What an array holds once the stream has come so far."""
        done = threading.Event()
        self.queue.put(done.set)
        while not done.wait(0.01):
            if self.failures:
                raise self.failures[0]
        return host(array.pointer, array.nbytes).view(array.dtype).reshape(array.shape)

    def gate(self):
        """Let the stream stand still until the event is set."""
        opened = threading.Event()
        self.queue.put(opened.wait)
        return opened

    @contextmanager
    def capture(self):
        """What goes on the stream goes into a graph."""
        self.graph = []
        yield self.graph
        self.graph = None

    def launch(self, graph):
        for operation in graph:
            self.queue.put(operation)

    def _put(self, operation):
        if self.graph is None:
            self.queue.put(operation)
        else:
            self.graph.append(operation)

    def _work(self):
        try:
            while True:
                self.queue.get()()
        except BaseException as error:
            self.failures.append(error)

    @staticmethod
    def _store(array, values):
        host(array.pointer, array.nbytes)[...] = values.reshape(-1).view(np.uint8)

    # ---- what a runtime does

    def memory(self, buf, caller):
        if not buf.contiguous:
            raise ValueError(f"{caller}: pass a contiguous copy of it")
        return Memory(buf, buf.pointer, buf.shape, buf.dtype, buf.writeable)

    def empty(self, shape, dtype):
        return self.memory(DeviceArray(shape, dtype), "empty")

    @property
    def bus_id(self):
        return f"00000000:{self.device + 1:02X}:00.0"

    in_turns = False

    @property
    def bandwidth(self):
        return 900.0

    @property
    def stream(self):
        return self.queue

    @property
    def capturing(self):
        return self.graph is not None

    def current(self):
        return nullcontext()

    def identity(self):
        return uuid.uuid4().bytes

    def join(self, identity, rank, size):
        if not self.comes_up:
            raise OSError("there is no cable")
        self.ends.append(Network(identity, rank))
        return self.ends[-1]

    def upload(self, values):
        found = self.empty((len(values),), np.uint8)
        host(found.pointer, len(values))[...] = values
        return found

    def part(self, whole, pointer, shape, dtype):
        return DeviceArray(shape, dtype, pointer, whole)

    def allocation(self, pointer):
        for base, nbytes, owner in list(_owners.values()):
            if base <= pointer < base + nbytes:
                return id(owner)
        raise AssertionError(f"nobody has {pointer:x}")

    def export(self, pointer):
        if not self.maps:
            return None
        for base, nbytes, _ in list(_owners.values()):
            if base <= pointer < base + nbytes:
                return Export(base.to_bytes(64, "little"), pointer - base)
        raise AssertionError(f"nobody has {pointer:x}")

    def reach(self, device):
        if device != self.device and not self.reaches:
            raise OSError(f"device {device} cannot be reached")

    def open(self, handle):
        if not self.reaches:
            raise OSError("the memory of another process cannot be reached")
        self.opened.append(handle)
        return MAPPED + int.from_bytes(handle, "little")

    def close(self, pointer):
        self.closed.append(pointer)

    def follow(self, buf):
        pass

    def load(self, dtype, op, *, whole):
        self.loaded.add((dtype, op, whole))

    def copy(self, target, source, nbytes):
        def copy():
            host(target, nbytes)[...] = host(source, nbytes)

        self._put(copy)

    def reduce(self, dtype, op, target, sources, count, divisor):
        kind = dtype_of(dtype)
        assert (dtype, op, False) in self.loaded

        def reduce():
            arrays = [
                host(place, count * kind.itemsize).view(kind)
                for place in (target, *sources)
            ]
            reduction(kind, op)(arrays[0], arrays[1:], divisor)

        self._put(reduce)

    def interpret(self, table, buffers, nbytes, ranks):
        assert ranks >= 1
        self.interpreted += 1
        assert (table.dtype, table.op, True) in self.loaded
        name = sources.interpreter(table.dtype, table.op).name
        assert nbytes > 0
        addresses = [buffer & (ELSEWHERE - 1) for buffer in buffers]

        def one(memory):
            address = memory.pointer & (ELSEWHERE - 1)
            return (ctypes.c_void_p * 1)(address)

        def interpret():
            getattr(self.interpreters, name)(
                1, 1, 1, one(table.rows), (ctypes.c_int * 1)(table.length),
                one(table.places), (ctypes.c_int64 * sources.ROOM)(*addresses),
                one(table.arrived),
            )  # fmt: skip

        self._put(interpret)

    def end_waits(self, flags):
        host(flags.pointer, flags.shape[0])[...] = 127

    def mark(self):
        found = Mark(self)
        self._put(found.event.set)
        return found

    def after(self, mark):
        self._put(mark.event.wait)

    def hold(self, stream, mark):
        (stream or self).after(mark)

    def as_now(self):
        return self

    def aside(self, *, high_priority=False):
        found = StandIn(
            self.process, self.device, maps=self.maps, reaches=self.reaches,
            interpreters=self.interpreters,
        )  # fmt: skip
        found.failures, found.loaded = self.failures, self.loaded
        found.has_high_priority = high_priority
        return found

    def write(self, flag, number):
        def write():
            host(flag, 4).view(np.uint32)[0] = number

        self._put(write)

    def wait(self, flag, number):
        def wait():
            end = time.monotonic() + 60
            place = host(flag, 4).view(np.uint32)
            while np.int32(np.uint32((int(place[0]) - number) % (1 << 32))) < 0:
                assert time.monotonic() < end, "a flag is never set"
                time.sleep(1e-5)

        self._put(wait)

    def to_host(self, pointer, target):
        array = DeviceArray((target.nbytes,), np.uint8, pointer, self)
        target[...] = self.values(array)

    def to_device(self, pointer, source):
        copied = source.copy()
        self._put(lambda: host(pointer, len(copied)).__setitem__(..., copied))
