"""The end of a job: the failures of its ranks, requests to stop, and their reports."""

import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from collalgo.errors import OutputError
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
    """

    rank: int
    reason: str
    lines: Sequence[str] = ()


#: Called with the ranks that have failed, the cause first, and whether others run.
Tell = Callable[[Sequence[RankFailure], bool], None]


def show(failures: Sequence[RankFailure], others: bool) -> None:
    """Write the cause of a failure to standard error."""
    first = failures[0]
    stopped = " (the others were stopped)" if others else ""
    lines = [f"  {line}" for line in first.lines]
    report("\n".join([first.reason + stopped, *lines]))


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

    ``stop`` is called with the number of the signal that asked to stop.
    """
    try:
        return work()
    except StopRequested as request:
        sinks.limit_wait(STOP_SECONDS)
        with suppress(StopRequested):  # a second request: end them at once
            stop(request.number)
        return 128 + request.number
    except BrokenPipeError:  # the reader of our output has ended
        return 128 + signal.SIGPIPE
    except OutputError as error:
        report(str(error))
        return 1
    finally:
        ignore_requests()
