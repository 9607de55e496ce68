from typing import Any

from collalgo._kernels.engine.program import Program
from collalgo.engine.plan.rows import Plan

CALLS: int

class StepLog:
    def end(self) -> tuple[list[tuple[int, int, int, int, int]], int]: ...

class Recorder:
    capacity: int
    count: int
    calls: int
    def plan(self, sequence: int) -> Plan: ...
    def program(self, sequence: int) -> Program: ...
    def records(self) -> list[dict[str, Any]]: ...
