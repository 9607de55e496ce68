from collections.abc import Callable

from collalgo._kernels.engine.program import Program
from collalgo.engine.call import Call

def are_unset(names: tuple[bytes, ...]) -> bool: ...

class SharedRange:
    least: float
    limit: float

    def __init__(
        self, least: float, limit: float, make: Callable[[], Program]
    ) -> None: ...

class CallKind:
    call: Call

    def __init__(
        self,
        call: Call,
        find_range: Callable[[Call, int, tuple[int, ...] | None], SharedRange],
        itemsize: int,
        shares: int,
        blocks: int,
        buffers: int,
    ) -> None: ...
    def new_program(self, count: int, counts: tuple[int, ...] | None) -> Program: ...
    def program_named(
        self,
        count: int,
        counts: tuple[int, ...] | None,
        name: str,
        counted: int,
        is_part: bool = False,
    ) -> Program: ...
    def release(self) -> None: ...
