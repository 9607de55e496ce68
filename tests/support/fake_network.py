"""A network between stand-ins for devices."""

from collections import defaultdict
from functools import partial
from queue import SimpleQueue

from tests.support.fake_device_memory import host

_wires = defaultdict(SimpleQueue)


class Network:
    """The end of a rank on a network of stand-ins, which carries one by one."""

    def __init__(self, identity, rank):
        self.identity, self.rank, self.closed = identity, rank, False

    def exchange(self, stream, sends, receives):
        assert not self.closed

        stream.put(partial(_carry, self.identity, self.rank, sends, receives))

    def close(self):
        self.closed = True


class Messages:
    """The end of a rank of a CUDA-aware engine: the host waits for its messages."""

    in_use = False

    def __init__(self, world, rank):
        self.world, self.rank = world, rank

    def exchange(self, sends, receives):
        _carry(self.world, self.rank, sends, receives)
        return True


def _carry(world, rank, sends, receives):
    for pointer, nbytes, peer in sends:
        _wires[world, rank, peer].put(host(pointer, nbytes).copy())
    for pointer, nbytes, peer in receives:
        message = _wires[world, peer, rank].get(timeout=60)
        host(pointer, nbytes)[...] = message
