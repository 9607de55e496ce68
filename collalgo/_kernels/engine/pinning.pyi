from typing import Any

from numpy.typing import NDArray

def pinned(
    source: NDArray[Any] | None, target: NDArray[Any] | None
) -> tuple[object, ...]: ...
