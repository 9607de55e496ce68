from collections.abc import Callable
from typing import Any

from collalgo._kernels.engine.program import Program
from collalgo.engine.plan.rows import Plan

CALLS: int

class Recorder:
    capacity: int
    count: int
    calls: int
    def plan(self, sequence: int) -> Plan: ...
    def program(self, sequence: int) -> Program: ...
    def start_tally(
        self, tally: Callable[[dict[Program, tuple[int, int, int, float]], int], None]
    ) -> None: ...
    def count_calls(self) -> None: ...
    def records(self) -> list[dict[str, Any]]: ...
