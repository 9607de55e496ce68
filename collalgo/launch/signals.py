"""Signals of a launcher: requests to stop it, and signals for the ranks."""

import os
import selectors
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TypeAlias

Handler: TypeAlias = Callable[[int, FrameType | None], None]

#: Signals that are forwarded to the ranks as they are.
FORWARDED = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGQUIT, signal.SIGWINCH)

#: Seconds in which a second request to stop is the same: ``timeout`` sends it to the
#: launcher and to its process group.
SAME_REQUEST = 1.0


class StopRequested(BaseException):
    """The launcher received SIGINT, SIGTERM or SIGHUP."""

    def __init__(self, number: int):
        self.number = number


#: The signals that ask to stop.
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Request:
    """Whether this launcher was asked to stop, and whether that changes nothing now."""

    was_seen = is_over = False


def ignore_requests() -> None:
    """Ignore further requests to stop: the job has its exit code."""
    _Request.is_over = True


@contextmanager
def requests_until_exit() -> Iterator[None]:
    """For a process that then exits: after a request to stop, others do nothing.

    Otherwise a signal would end it before it has returned its exit code.
    """

    def late(number: int, _frame: FrameType | None) -> None:
        if not _Request.was_seen:
            signal.signal(number, before[number])
            signal.raise_signal(number)

    _Request.was_seen = False
    before = {int(number): signal.getsignal(number) for number in STOPS}
    with _handled(dict.fromkeys(STOPS, late), ignores=lambda: _Request.was_seen):
        yield


class _Delay:
    """Whether StopRequested is delayed, and the signal that was."""

    depth = 0
    number: int | None = None


@contextmanager
def stop_delayed() -> Iterator[None]:
    """Raise StopRequested at the end only, instead of an error of the body.

    What was read must be written, and what was started be noted.
    """
    _Delay.depth += 1
    try:
        yield
    finally:
        _Delay.depth -= 1
        if not _Delay.depth:
            check_stop()


def check_stop() -> None:
    """Raise a StopRequested that was delayed."""
    number, _Delay.number = _Delay.number, None
    if number is not None:
        raise StopRequested(number)


@contextmanager
def signals_raise() -> Iterator[None]:
    """Raise StopRequested at SIGINT, SIGTERM and SIGHUP.

    Ignored signals stay ignored, as SIGHUP under ``nohup``.
    """
    last = -SAME_REQUEST
    _Request.is_over = False

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        _Request.was_seen = True
        if _Request.is_over:
            return
        now = time.monotonic()
        if now - last >= SAME_REQUEST:
            last, _Delay.number = now, number
            if not _Delay.depth:
                check_stop()

    with _handled(dict.fromkeys(STOPS, handle)), _select_woken():
        yield


class _Wakeup:
    """The pipe into which signals write: the descriptor to read; None without one."""

    reader: int | None = None


def _takes_signals() -> bool:
    """Whether this thread can handle signals: Python leaves them to the main one."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def _select_woken() -> Iterator[None]:
    """Let signals end a select: also those that come just before it begins."""
    if not _takes_signals():
        yield
        return
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    former = _Wakeup.reader, signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    _Wakeup.reader = reader
    try:
        yield
    finally:
        _Wakeup.reader, before = former
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def register_wakeup(selector: selectors.BaseSelector) -> None:
    """Let signals end the selects of a selector, whose handlers then run."""
    if _Wakeup.reader is not None:
        selector.register(_Wakeup.reader, selectors.EVENT_READ, clear_wakeup)


def clear_wakeup() -> None:
    """Clear the signals that have arrived."""
    if _Wakeup.reader is not None:
        with suppress(BlockingIOError):
            os.read(_Wakeup.reader, 4096)


@contextmanager
def signals_forwarded(send: Callable[[int], None], *, stops: bool) -> Iterator[None]:
    """Send the ranks the signals that are meant for them.

    Parameters
    ----------
    send
        Sends a signal to all ranks.
    stops
        Whether the launcher stops with the ranks at SIGTSTP. An agent does not: it has
        to forward the SIGCONT that its launcher passes on.
    """

    def forward(number: int, _frame: FrameType | None) -> None:
        send(number)

    def suspend(_number: int, _frame: FrameType | None) -> None:
        send(signal.SIGSTOP)
        if stops:
            os.kill(os.getpid(), signal.SIGSTOP)  # goes on at SIGCONT
            send(signal.SIGCONT)

    handlers: dict[int, Handler] = dict.fromkeys(FORWARDED, forward)
    handlers[signal.SIGTSTP] = suspend
    if not stops:
        handlers[signal.SIGCONT] = forward
    with _handled(handlers):
        yield


@contextmanager
def _handled(
    handlers: Mapping[int, Handler], ignores: Callable[[], bool] = lambda: False
) -> Iterator[None]:
    """Handle signals, but those that are ignored, or handled by code in C.

    In the end they are handled as before, or ignored.
    """
    before = {number: signal.getsignal(number) for number in handlers}
    ours = [n for n, former in before.items() if former not in (signal.SIG_IGN, None)]
    if not _takes_signals():
        ours = []
    for number in ours:
        signal.signal(number, handlers[number])
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_IGN if ignores() else before[number])
