from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.schedule import Kind, Step

def columns(
    traces: Iterable[tuple[int, Iterable[Step]]], send: Kind, recv: Kind
) -> list[Any]: ...
def largest_sums(
    step: NDArray[np.int64],
    column: NDArray[np.int64],
    weights: NDArray[np.float64],
    steps: int,
) -> tuple[NDArray[np.float64], NDArray[np.int64]]: ...
