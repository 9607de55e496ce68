from collalgo.schedule.transfers import Ints, Reals
from collalgo.synthesis.paces import Pace

class Ordering:
    def __init__(
        self,
        pair: Ints,
        first: Ints,
        links: Ints,
        busy: Reals,
        first_after: Ints,
        after: Ints,
        joint: Ints,
        part: Ints,
        hub: Ints,
        spoke: Ints,
        several: bool,
        count: int,
        weights: Reals | None = None,
    ) -> None: ...
    @property
    def lane(self) -> Ints: ...
    def steps(self, pace: Pace, due: Reals | None = None) -> Ints: ...
