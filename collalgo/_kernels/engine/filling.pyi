from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import PlanTemplate, Rows

class Filling:
    pieces: Rows
    copies: Rows
    divisions: Rows
    scratch_bytes: int

    def __init__(self, template: PlanTemplate, layout: Layout) -> None: ...
    def moving(self) -> tuple[Rows, Rows, Rows, Rows, Rows, Rows] | None: ...
