from collalgo.engine.plan.rows import PlanTemplate

class TemplateTables:
    template: PlanTemplate

    def __init__(self, template: PlanTemplate) -> None: ...
