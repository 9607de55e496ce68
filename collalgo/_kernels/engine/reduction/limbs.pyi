import numpy as np
from numpy.typing import NDArray

ALL_LIMBS: int
BITS: int
ADDENDS: int

def window(values: NDArray[np.float64], special: int) -> tuple[int, int]: ...
def add(
    limbs: NDArray[np.int64], low: int, special: int, values: NDArray[np.float64]
) -> None: ...
def carry(limbs: NDArray[np.int64], low: int, special: int) -> int: ...
def totals(
    limbs: NDArray[np.int64], low: int, special: int, is_odd: bool
) -> NDArray[np.float64]: ...
