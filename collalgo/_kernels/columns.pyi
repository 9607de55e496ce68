from collections.abc import Iterable
from typing import Any

from collalgo.schedule import Steps
from collalgo.transfers import Ints, Reals

def columns(traces: Iterable[tuple[int, Steps]]) -> list[Any]: ...
def spread(
    step: Ints,
    rank: Ints,
    kind: Ints,
    peer: Ints,
    lane: Ints,
    share: Reals,
    onto: Ints,
    like: Ints,
    digits: Ints,
) -> tuple[Any, ...]: ...
def numbered_steps(
    step: Ints, rank: Ints, kind: Ints, peer: Ints, share: Reals, steps: int
) -> Ints: ...
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
