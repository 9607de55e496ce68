from collalgo.schedule.transfers import Ints, Reals

class Ordering:
    def __init__(
        self,
        pair: Ints,
        first: Ints,
        links: Ints,
        busy: Reals,
        first_after: Ints,
        after: Ints,
        alone: Ints,
        count: int,
    ) -> None: ...
    def steps(self, least: float, fraction: float = 0) -> Ints: ...
