from collections.abc import Callable

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.engine.program import Program

def is_ready(runner: CallRunner, query: Callable[[], bool]) -> bool: ...
def run_carried(
    runner: CallRunner, program: Program, carry: Callable[[], bool], waiting: float
) -> int: ...
