from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import PlanTemplate, Rows

class Filling:
    scratch_bytes: int

    def __init__(self, template: PlanTemplate, layout: Layout) -> None: ...
    def tables(self) -> dict[str, Rows]: ...
