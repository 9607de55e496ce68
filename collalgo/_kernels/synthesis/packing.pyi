import numpy as np
from numpy.typing import NDArray

from collalgo.schedule.transfers import Ints, Reals

class Packing:
    def __init__(
        self,
        size: int,
        first: Ints,
        links: Ints,
        parts: Reals,
        usable: NDArray[np.uint8],
        capacity: Reals,
        roots: Ints,
        ends: Ints,
        both_ways: bool = False,
        weights: Reals | None = None,
        kinds: Ints | None = None,
    ) -> None: ...
    @property
    def parents(self) -> NDArray[np.int32]: ...
    @property
    def load(self) -> Reals: ...
    def sweep(self, squarings: int, hop: float = 0, fresh: float = 0) -> float: ...
