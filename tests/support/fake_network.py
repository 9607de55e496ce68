"""A network between stand-ins for devices."""

from collections import defaultdict
from queue import SimpleQueue

from tests.support.fake_device_memory import host

_wires = defaultdict(SimpleQueue)


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
