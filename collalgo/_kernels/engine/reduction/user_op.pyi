from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.reduction.reduce import Reduction

class CompiledReduction(Reduction):
    def __init__(self, address: int, itemsize: int, owner: object) -> None: ...

class PythonReduction(Reduction):
    def __init__(
        self,
        combine: Callable[[list[NDArray[Any]]], NDArray[Any]],
        dtype: np.dtype[Any],
    ) -> None: ...
