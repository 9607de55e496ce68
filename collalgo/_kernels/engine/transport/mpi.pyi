from collections.abc import Mapping

from collalgo._kernels.engine.transport.wire import Wire

FUNCTIONS: tuple[str, ...]

class MpiWire(Wire):
    def __init__(
        self,
        functions: Mapping[str, int],
        comm: int,
        byte: int,
        probed: tuple[int, int, int],
        owner: object,
        level: str,
    ) -> None: ...

class MpiTurn:
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
