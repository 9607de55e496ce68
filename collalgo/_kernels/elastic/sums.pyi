from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.engine.reduction.reduce import Reduction

class Sums:
    def __init__(
        self,
        merges: tuple[int, ...],
        length: int,
        reduction: Reduction | None = None,
        new_total: Callable[[int], NDArray[Any]] | None = None,
    ) -> None: ...
    @property
    def totals(self) -> list[NDArray[Any]]: ...
    def add_shard(self, parts: Iterable[NDArray[Any]]) -> None: ...
    def add(self, total: NDArray[Any]) -> None: ...

def add_shards(
    sums: list[Sums],
    numbers: Sequence[int],
    of: Callable[[int], Any],
    example: Any,
    by_dtype: Callable[[Any], list[list[NDArray[Any]]]],
) -> None: ...
