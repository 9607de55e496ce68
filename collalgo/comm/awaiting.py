"""Calls in the background as awaitables of asyncio."""

from collections.abc import Generator
from contextlib import suppress
from typing import Any

#: Seconds between two polls of the stream of a device.
POLL_SECONDS = 0.001


def outcome_of(work: Any) -> Generator[Any, None, Any]:
    """Wait in the running event loop until a call has ended; return its result.

    A cancelled task stops waiting, and cancels a receive that no message has reached;
    other calls continue in the background, since other ranks take part in them.
    """
    import asyncio  # which takes a while

    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    def notify(_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(end)

    work.add_done_callback(notify)
    work.done()  # so that it is not held until somebody waits
    try:
        yield from ended
    except (asyncio.CancelledError, GeneratorExit):
        if hasattr(work, "cancel"):
            work.cancel()
        raise
    while not work.done():  # on a device, whose stream reports nothing
        yield from asyncio.sleep(POLL_SECONDS).__await__()
    return work.wait()
