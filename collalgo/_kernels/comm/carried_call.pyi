from collections.abc import Callable

from collalgo._kernels.comm.call_runner import CallRunner
from collalgo._kernels.engine.program import Program

def run_carried(
    runner: CallRunner, program: Program, carry: Callable[[], bool], waiting: float
) -> int: ...
