from collalgo.schedule.transfers import Ints, Reals

def loads_of(
    which: Ints, lengths: Ints, first: Ints, links: Ints, parts: Reals
) -> tuple[Ints, Ints, Reals]: ...
def seconds_of(
    message: Ints,
    link: Ints,
    part: Reals,
    step: Ints,
    share: Reals,
    times: Reals,
    speed: Reals,
) -> tuple[Ints, Reals, Reals]: ...
def largest_sums(
    step: Ints, column: Ints, weights: Reals | None, steps: int, segments: int = 1
) -> tuple[Reals, Ints]: ...
