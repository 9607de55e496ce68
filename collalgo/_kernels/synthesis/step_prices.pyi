from collalgo.schedule.transfers import Ints, Reals

class StepPrices:
    def __init__(
        self,
        first: Ints,
        links: Ints,
        busy: Reals,
        latencies: Reals,
        sent: Ints,
        received: Ints,
        size: int,
        lanes: int,
        count: int,
    ) -> None: ...
    def of(
        self, step: Ints, pair: Ints, lane: Ints, share: Reals, steps: int
    ) -> tuple[Reals, Reals, Ints]: ...
    @property
    def total(self) -> Reals: ...
