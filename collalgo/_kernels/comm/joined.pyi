from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

def join(arrays: list[NDArray[Any]], flat: NDArray[Any]) -> int: ...
def spread(flat: NDArray[Any], arrays: list[NDArray[Any]]) -> int: ...
def shared_pair(
    written: Sequence[NDArray[Any]], others: Sequence[NDArray[Any]]
) -> tuple[int, int] | None: ...
