"""The trials of an event: they are told one by one, and one may fail.

What fails before an event, as the start of a job, ends the measurement.
"""

import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice

from collalgo.base.units import counted

#: The seconds, or the ratios, of the phases of an event, and those of its trials. A
#: phase that did not come in time is infinite, one that cannot be told NaN.
Times = Sequence[float]
Trials = Generator[Times, None, None]

#: The seconds of no phase, if a trial ends between two of them.
NONE: Times = ()

#: Failed trials after which an event is left.
MOST_FAILED = 3


class TrialFailed(Exception):
    """A job has not recovered from an event in time, or has ended.

    Attributes
    ----------
    times : sequence of float
        The times of the phases before the one that did not come.
    """

    def __init__(self, reason: str, times: Times = NONE):
        super().__init__(reason)
        self.times = times

    def of_phases(self, phases: int) -> Times:
        """The times of all phases: the first that did not come in time is infinite."""
        known = [*self.times, math.inf, *[math.nan] * phases]
        return known[:phases]


class ProcessEnded(Exception):
    """A process of a job has ended that should run."""


@contextmanager
def trial() -> Iterator[list[float]]:
    """An event and what follows it: a list for the times of its phases.

    Raises
    ------
    TrialFailed
        If a phase does not come in time, or a process has ended.
    """
    times: list[float] = []
    try:
        yield times
    except (TimeoutError, ProcessEnded) as error:
        raise TrialFailed(str(error), times) from error


def measured(
    event: str, start: Callable[[], Trials], count: int, phases: int
) -> list[Times]:
    """The times of some trials of an event, told as they come.

    A phase in which a job does not recover in time, or ends, is infinite, and those
    after it are NaN; the next trial starts another job. After some of these no further
    trials are made.

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
        except TrialFailed as error:
            failed += 1
            found.append(error.of_phases(phases))
            _tell(f"{event}: trial {len(found)} failed: {error}")
        if len(found) == made:  # the trials have ended
            break
    return found


def _some(start: Callable[[], Trials], count: int) -> Iterator[Times]:
    """Some trials, which are then closed."""
    with closing(start()) as trials:
        yield from islice(trials, count)


def _tell(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
