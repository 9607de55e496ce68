"""The end of a communicator: its calls in the background, and its memory."""

import sys

from collalgo._kernels.comm.exit_code import fail_at_exit
from collalgo._kernels.comm.progress import Progress
from collalgo.bootstrap.context import Context
from collalgo.comm.recovery import Recovery
from collalgo.comm.world_failures import failure_error
from collalgo.errors import CollalgoError

#: Seconds that calls in the background have to complete as a process ends.
UNFINISHED_SECONDS = 5.0

#: The most calls that are named which have not completed.
MOST_SHOWN = 10


def release(context: Context, progress: Progress) -> CollalgoError | None:
    """End the calls in the background, then release the context."""
    failure = context.release(unfinished=progress.stop())
    if progress.used:  # its last call has failed by now, but still uses the memory
        progress.join()
        context.release()
    return failure_error(context, failure) if failure else None


def leftovers(
    context: Context, progress: Progress, recovery: Recovery, seconds: float
) -> list[str]:
    """The calls in the background without an end, or whose error was not taken.

    Empty if the user knows already that the communicator has failed.
    """
    transport, found = context.transport, list[str]()
    if context.has_left or transport.closed or transport.forked or recovery.has_raised:
        return found
    advice = "make the call on every rank, and wait for it"
    if not seconds:
        advice += " before close(), which ends it"
    for name, number, (file, line), error in progress.leftovers(seconds)[:MOST_SHOWN]:
        why = "has not completed" if error is None else f"has failed: {error}"
        found.append(
            f"rank {transport.rank}: {name} #{number}, made in the background at "
            f"{file}:{line}, {why}; {advice}"
        )
    return found


def abandon(context: Context, progress: Progress, recovery: Recovery) -> None:
    """Release an open communicator; an error cannot be raised, so the process fails."""
    left = leftovers(context, progress, recovery, UNFINISHED_SECONDS)
    problems = [f"collalgo: {words}" for words in left]
    if error := release(context, progress):
        problems.append(f"collalgo.{type(error).__name__}: {error}")
    for words in problems:
        if sys.stderr is not None:
            sys.stderr.write(words + "\n")
        fail_at_exit()
