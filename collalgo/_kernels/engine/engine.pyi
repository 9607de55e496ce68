from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo._kernels.engine.steps import Steps
from collalgo._kernels.engine.transport.transport import Transport
from collalgo.engine.plan.copying import Copying
from collalgo.engine.plan.rows import Plan

RUN_DONE: int
RUN_FAILED: int
RUN_CLOSED: int
RUN_FORKED: int
RUN_BUSY: int
RUN_NEEDS_PACKING: int
RUN_NEEDS_SCRATCH: int

def pinned(
    source: NDArray[Any] | None, target: NDArray[Any] | None
) -> tuple[object, ...]: ...

class Program(Steps):
    def __init__(
        self,
        plan: Plan,
        reduction: Reduction | None,
        divisor: int,
        record: tuple[int, int, int, int, int, int, str],
        copying: Copying = ...,
    ) -> None: ...
    def run(
        self,
        transport: Transport,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        scratch: NDArray[Any],
        timeout: float,
    ) -> int: ...
    def repeat(self, transport: Transport, times: int) -> None: ...
