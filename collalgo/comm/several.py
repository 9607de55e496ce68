"""Wait for several calls in the background: for all, or for the first that ends."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

from collalgo._kernels.comm.point_to_point.message import Message
from collalgo._kernels.comm.work import Work
from collalgo.base.arguments import shown, wrong_type
from collalgo.bootstrap.timeouts import seconds_of_wait

#: The number of polls without a pause, and the first and the longest pause in seconds.
LOOKS, PAUSES = 200, (2e-5, 1e-3)

#: The types of most calls in the background; each call of a derived type is checked.
KINDS = {Work, Message}


def waitall(works: Sequence[Work | Message], timeout: float | None = None) -> list[Any]:
    """Wait for calls in the background; return their results.

    Parameters
    ----------
    works
        What calls in the background have returned.
    timeout
        Seconds to wait for all of them; by default each until it has ended.

    Raises
    ------
    TimeoutError
        If they have not ended after ``timeout``; they continue.
    CollalgoError
        The error of the first of them that has failed.
    """
    works = _checked(works, "waitall")
    if timeout is None:
        return [work.wait() for work in works]
    deadline = time.monotonic() + seconds_of_wait(timeout)
    return [work.wait(max(deadline - time.monotonic(), 0)) for work in works]


def testany(works: Sequence[Work | Message]) -> int | None:
    """The index of a call in the background that has ended or failed, or None."""
    return _first_done(_checked(works, "testany"))


def waitany(works: Sequence[Work | Message], timeout: float | None = None) -> int:
    """Wait until one of several calls in the background has ended; return its index.

    Parameters
    ----------
    works
        What calls in the background have returned, at least one.
    timeout
        Seconds to wait; by default until one has ended.

    Raises
    ------
    TimeoutError
        If none has ended after ``timeout``; they continue.
    """
    works = _checked(works, "waitany")
    if not works:
        raise ValueError("waitany: works is empty; pass one call or more")
    deadline = None if timeout is None else time.monotonic() + seconds_of_wait(timeout)
    looks, pause = 0, PAUSES[0]
    while (place := _first_done(works)) is None:
        if deadline is not None and time.monotonic() >= deadline:
            raise TimeoutError(
                f"none of {len(works)} calls is done after {timeout:g} s; they "
                "continue in the background: wait for them again"
            )
        looks += 1
        time.sleep(pause if looks > LOOKS else 0)
        pause = min(1.1 * pause, PAUSES[1]) if looks > LOOKS else pause
    return place


def _first_done(works: Sequence[Work | Message]) -> int | None:
    return next((place for place, work in enumerate(works) if work.done()), None)


def _checked(works: Any, caller: str) -> list[Work | Message]:
    """The calls as a list, which all have been made in the background."""
    if type(works) is list and KINDS.issuperset(map(type, works)):  # as most are
        return [*works]  # another thread may change those of the caller
    if not isinstance(works, Iterable):
        raise TypeError(f"{caller}: works is {shown(works)}; pass a list of calls")
    found = list(works)
    for place, work in enumerate(found):
        if not isinstance(work, (Work, Message)) and not _is_of_object(work):
            advice = "what a call in the background returned"
            raise wrong_type(caller, f"works[{place}]", work, advice)
    return found


def _is_of_object(work: Any) -> bool:
    """Whether a call in the background is a message of an object."""
    from collalgo.comm.point_to_point.object_messages import ObjectMessage

    return isinstance(work, ObjectMessage)
