from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

class Fault(Exception): ...

class SymbolicReplay:
    def __init__(
        self, tables: dict[str, Any], values: NDArray[np.int32], cells: int, terms: Any
    ) -> None: ...
    def run(self, events: Ints) -> None: ...
