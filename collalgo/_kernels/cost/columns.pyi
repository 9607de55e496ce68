from collections.abc import Iterable
from typing import Any

from collalgo.schedule import Steps
from collalgo.schedule.transfers import Ints, Reals

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
