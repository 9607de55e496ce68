"""The end of a job: the failures of its ranks, requests to stop, and their reports."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import dropwhile
from typing import NamedTuple

from collalgo.launch.messages import report
from collalgo.launch.output import Sinks
from collalgo.launch.signals import StopRequested, ignore_requests

#: Seconds to wait for simultaneous failures of other ranks, to find the first cause.
SETTLE_SECONDS = 0.3

#: Seconds that a rank has to end after a signal, before a stronger one is sent.
STOP_SECONDS = 5.0

#: The exit code where ranks failed only because those of another host had.
PEER_FAILED = 76


class RankFailure(NamedTuple):
    """The failure of a rank, as its launcher sees it.

    Attributes
    ----------
    rank : int
        The rank.
    reason : str
        The event, as a sentence.
    lines : sequence of str
        The traceback, or the last lines of its standard error.
    is_shown : bool
        Whether they are a traceback that is in the forwarded output.
    """

    rank: int
    reason: str
    lines: Sequence[str] = ()
    is_shown: bool = False


#: Called with the ranks that have failed, the cause first, and whether others run.
Tell = Callable[[Sequence[RankFailure], bool], None]


def show(failures: Sequence[RankFailure], others: bool) -> None:
    """Write the cause of a failure to standard error.

    Of a traceback that is in the output, only the error is repeated.
    """
    first = failures[0]
    stopped = " (the others were stopped)" if others else ""
    above = "; its traceback is above" if first.is_shown else ""
    lines = error_lines(first.lines) if first.is_shown else first.lines
    report("\n".join([first.reason + stopped + above, *(f"  {x}" for x in lines)]))


def error_lines(traceback: Sequence[str]) -> list[str]:
    """The lines of a traceback after its last frame."""
    frames = [i for i, line in enumerate(traceback) if line.startswith("Traceback")]
    return [*dropwhile(lambda line: line.startswith(" "), traceback[frames[-1] + 1 :])]


@dataclass(frozen=True)
class Supervision:
    """The reaction to the failure of a rank, and the destination of output.

    Attributes
    ----------
    settle : float
        Seconds that the other ranks have to end, before they are stopped.
    tell : callable
        Takes the failures.
    by_python : bool
        Whether output goes through ``sys.stdout`` and ``sys.stderr``, as that of a
        notebook, instead of their descriptors.
    """

    settle: float = SETTLE_SECONDS
    tell: Tell = show
    by_python: bool = False


#: That of a command.
OF_COMMAND = Supervision()


def run_to_end(
    work: Callable[[], int], stop: Callable[[int], None], sinks: Sinks
) -> int:
    """Run the processes of a job: the exit code of ``work``, or of its interruption.

    ``stop`` is called with the number of the signal that the processes get: the one
    that asked to stop, or SIGTERM if the output cannot be written.
    """
    try:
        number, code = _interrupted(work)
        if number is not None:
            sinks.begin_stop(STOP_SECONDS)
            with suppress(StopRequested):  # a second request: end them at once
                stop(number)
        return code
    finally:
        ignore_requests()


def _interrupted(work: Callable[[], int]) -> tuple[int | None, int]:
    """The signal that is to stop the processes, if any, and the exit code."""
    try:
        return None, work()
    except StopRequested as request:
        return request.number, 128 + request.number
    except BrokenPipeError:  # the reader of our output has ended
        return signal.SIGTERM, 128 + signal.SIGPIPE
    except OSError as error:  # as on a full disk
        report(str(error))
        return signal.SIGTERM, 1
