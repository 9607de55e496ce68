"""Signals that ask a launcher to stop, as exceptions."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class StopRequested(BaseException):
    """The launcher received SIGINT, SIGTERM or SIGHUP."""

    def __init__(self, number: int):
        self.number = number


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise StopRequested at SIGINT, SIGTERM and SIGHUP."""

    def handle(number: int, _frame: FrameType | None) -> None:
        raise StopRequested(number)

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
