from typing import Any

from numpy.typing import NDArray

FAMILIES: tuple[str, ...]
OPERATIONS: tuple[str, ...]
EXACT_SUM: str
VARIANTS: tuple[str, ...]

class Float8Tables:
    def __init__(self, decode: NDArray[Any], encode: NDArray[Any]) -> None: ...

class Reduction:
    itemsize: int
    def __init__(
        self,
        family: str,
        operation: str,
        itemsize: int,
        tables: Float8Tables | None = None,
        variant: str | None = None,
    ) -> None: ...
    def __call__(
        self, out: NDArray[Any], inputs: list[NDArray[Any]], divisor: int = 0
    ) -> NDArray[Any]: ...
