from typing import Any

from numpy.typing import NDArray

def xxh64(data: NDArray[Any]) -> int: ...
