"""Visit all states of the model of processes in rounds, and check each of them."""

from collections import deque
from typing import NamedTuple

from tests.support.rendezvous_properties import Violation


class Explored(NamedTuple):
    """How much was explored."""

    states: int
    transitions: int
    is_complete: bool


def explore(model, start, most=10**9, settle_every=50):
    """Visit all states that are reached from one, breadth first; check each of them.

    Of every ``settle_every``-th it is checked that the job settles; 0 for none.
    """
    seen, waiting = {start}, deque([(start, None)])
    transitions = popped = 0
    while waiting and len(seen) < most:
        world, trace = waiting.popleft()
        popped += 1
        try:
            if settle_every and popped % settle_every == 0:
                model.check_settles(world)
            for name, following in model.successors(world):
                transitions += 1
                if following not in seen:
                    seen.add(following)
                    model.check(following)
                    waiting.append((following, (name, trace)))
        except Violation as violation:
            raise Violation(f"{violation} after {path(trace)}") from None
    return Explored(len(seen), transitions, not waiting)


def path(trace):
    names = []
    while trace:
        name, trace = trace
        names.append(name)
    return "\n".join(reversed(names))
