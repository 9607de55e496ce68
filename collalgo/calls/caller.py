"""What every call needs of its communicator."""

from collections.abc import Callable

from collalgo._kernels.engine import Program
from collalgo.arrays import Array

#: Runs a program: its source, target and timeout, and the name of the call.
Run = Callable[[Program, Array | None, Array | None, float | None, str], None]


class Caller:
    """One rank of a communicator, with its programs and what runs them."""

    rank: int
    size: int
    _get: Callable[..., Program]
    _run: Run
