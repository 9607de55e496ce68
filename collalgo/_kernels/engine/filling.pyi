from collalgo._kernels.engine.borders import Borders
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.rows import Rows

class Filling(Borders):
    def fill_layout(self, layout: Layout) -> None: ...
    def plan_tables(self) -> dict[str, Rows]: ...
