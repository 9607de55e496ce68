"""The trials of an event: they are told one by one, and one may fail."""

import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import islice

from collalgo.base.units import counted

#: The seconds, or the ratios, of the phases of an event, and those of its trials. A
#: phase that did not come in time is infinite, one that cannot be told NaN.
Times = Sequence[float]
Trials = Generator[Times, None, None]

#: Failed trials after which an event is left.
MOST_FAILED = 3


def measured(
    event: str, start: Callable[[], Trials], count: int, phases: int
) -> list[Times]:
    """The times of some trials of an event, told as they come.

    A job that does not recover in time, or ends, is infinitely late; the next trial
    starts another one. After some of these no further trials are made.

    Parameters
    ----------
    event
        The event and its place, in words.
    start
        Starts trials; they are closed at the end.
    count
        The number of trials.
    phases
        The number of phases of a trial.
    """
    found: list[Times] = []
    failed = 0
    while len(found) < count and failed < MOST_FAILED:
        made = len(found)
        try:
            for times in _some(start, count - made):
                found.append(times)
                _tell(f"{event}: {len(found)} of {counted(count, 'trial')}")
        except (TimeoutError, RuntimeError) as error:
            failed += 1
            found.append([math.inf] * phases)
            _tell(f"{event}: trial {len(found)} failed: {error}")
        if len(found) == made:  # they are over
            break
    return found


def _some(start: Callable[[], Trials], count: int) -> Iterator[Times]:
    """Some trials, which are then closed."""
    with closing(start()) as trials:
        yield from islice(trials, count)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
