from typing import Any

from numpy.typing import NDArray

from collalgo._kernels.engine.reduction.reduce import Reduction
from collalgo._kernels.engine.steps import Steps
from collalgo._kernels.engine.transport.transport import Transport
from collalgo.engine.plan.copying import Copying
from collalgo.engine.plan.rows import Plan, PlanTemplate

RUN_DONE: int
RUN_FAILED: int
RUN_CLOSED: int
RUN_FORKED: int
RUN_BUSY: int
RUN_NEEDS_PACKING: int
RUN_NEEDS_SCRATCH: int

class Program(Steps):
    def __init__(
        self,
        template: PlanTemplate,
        reduction: Reduction | None,
        divisor: int,
        record: tuple[int, int, int, int, int, int | None, str],
        copying: Copying = ...,
        itemsize: int = 1,
        shares: int = 0,
        passed: tuple[int, int] = (0, 0),
        counted: int = ...,
    ) -> None: ...
    algorithm: str
    counts: tuple[int, ...] | None
    @property
    def plan(self) -> Plan: ...
    def call(self) -> dict[str, Any]: ...
    def plan_for(self, count: int, counts: tuple[int, ...] | None) -> Plan: ...
    def run(
        self,
        transport: Transport,
        source: NDArray[Any] | None,
        target: NDArray[Any] | None,
        scratch: NDArray[Any],
        timeout: float,
    ) -> int: ...
    def repeat(self, transport: Transport, times: int) -> None: ...
