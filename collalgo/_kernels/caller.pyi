from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.engine import Program
from collalgo._kernels.transport import Transport

Array = NDArray[Any]

def apart(a: Array, b: Array) -> bool: ...
def alike(a: Array, b: Array) -> bool: ...

class Caller:
    rank: int
    size: int
    seconds: float
    def __init__(
        self,
        transport: Transport,
        find: Callable[..., Program],
        cope: Callable[..., None],
        interrupted: Callable[[str, BaseException], None],
        seconds: float,
    ) -> None: ...
    def _call(
        self,
        collective: str,
        source: Array | None,
        target: Array | None,
        timeout: float | None,
        algorithm: Any,
        *,
        like: Array | None = None,
        count: int = -1,
        op: Any = None,
        root: int = 0,
        counts: tuple[int, ...] | None = None,
        reproducible: bool = False,
        caller: str | None = None,
    ) -> None: ...
