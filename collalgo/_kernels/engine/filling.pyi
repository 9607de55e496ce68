from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import PlanTemplate, Rows

class Filling:
    template: PlanTemplate
    scratch_bytes: int

    def __init__(self, template: PlanTemplate) -> None: ...
    def fill_layout(self, layout: Layout) -> None: ...
    def plan_tables(self) -> dict[str, Rows]: ...
