from collalgo.engine.plan.rows import Plan

class Rows:
    plan: Plan
