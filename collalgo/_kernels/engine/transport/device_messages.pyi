from collections.abc import Callable

from collalgo._kernels.engine.transport.network import Network

TAGS: int

class DeviceMessages:
    in_use: bool
    def __init__(self, network: Network) -> None: ...
    def exchange(
        self,
        sends: list[tuple[int, int, int]],
        receives: list[tuple[int, int, int]],
        check: Callable[[], None],
    ) -> None: ...
