from collections.abc import Callable

from collalgo._kernels.engine import Program
from collalgo._kernels.transport import Transport

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
