from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.engine.program import Program

def run_first(
    runner: CallRunner,
    program: Program,
    source: NDArray[Any] | None,
    target: NDArray[Any] | None,
    waiting: float,
    caller: str,
    rest: Callable[[], Any],
) -> bool: ...
def run_then(
    runner: CallRunner,
    program: Program,
    source: NDArray[Any] | None,
    target: NDArray[Any] | None,
    timeout: float | None,
    caller: str,
    rest: Callable[[], Any],
    at_once: bool = False,
) -> Any: ...
def after_exchange(
    runner: CallRunner,
    mine: NDArray[Any],
    caller: str,
    timeout: float | None,
    rest: Callable[[NDArray[Any]], Any],
    at_once: bool = False,
) -> Any: ...
