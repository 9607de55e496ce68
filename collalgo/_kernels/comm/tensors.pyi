from typing import Any

from numpy.typing import NDArray

def tensor_array(tensor: object, rows: int = -1) -> NDArray[Any] | None: ...
