from collalgo.rows import Plan

class Rows:
    plan: Plan
