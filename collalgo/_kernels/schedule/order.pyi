import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]

def in_order(
    first_step: Ints, first_message: Ints, messages: Ints, out: Ints, into: Ints
) -> tuple[Ints, Ints]: ...
def critical_path(
    events: Ints,
    rank_of: Ints,
    first_incoming: Ints,
    incoming: Ints,
    out: Ints,
    sending: Reals,
    receiving: Reals,
    latency: float,
    size: int,
) -> Reals: ...
