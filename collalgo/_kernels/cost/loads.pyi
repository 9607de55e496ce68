from collalgo.schedule.transfers import Ints, Reals

def legs_of(
    which: Ints, lengths: Ints, first: Ints, ways: Ints, parts: Reals
) -> tuple[Ints, Ints, Reals]: ...
def seconds_of(
    message: Ints,
    way: Ints,
    part: Reals,
    step: Ints,
    share: Reals,
    times: Reals,
    speed: Reals,
) -> tuple[Ints, Reals, Reals]: ...
def largest_sums(
    step: Ints, column: Ints, weights: Reals | None, steps: int, segments: int = 1
) -> tuple[Reals, Ints]: ...
