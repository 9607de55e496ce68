from collections.abc import Sequence

from collalgo._kernels.engine.transport.wire import Wire

class Packets:
    def __init__(
        self, wire: Wire, addresses: Sequence[int], first_tag: int
    ) -> None: ...
