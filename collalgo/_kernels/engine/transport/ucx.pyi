from collections.abc import Mapping

from collalgo._kernels.engine.transport.wire import Wire

FUNCTIONS: tuple[str, ...]

class UcxWire(Wire):
    def __init__(
        self,
        functions: Mapping[str, int],
        settings: Mapping[str, str],
        rank: int,
        size: int,
    ) -> None: ...
    def context_address(self) -> int: ...
    def address(self) -> bytes: ...
    def connect(self, addresses: list[bytes]) -> None: ...
    def close(self, has_failed: bool = ...) -> None: ...
