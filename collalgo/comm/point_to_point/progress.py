"""How the messages of a rank make progress.

Whoever waits for a message reads what other ranks have written; while nobody waits, a
thread does.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from threading import Event, RLock, Thread

from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.pair import Pair

#: The number of polls without a pause.
LOOKS = 50

#: The first and the longest pause between two later polls, in seconds.
PAUSES = 5e-5, 2e-3

#: The longest wait for one pair, in seconds; then the others are looked at again.
TURN = 0.02

#: Seconds for which the thread leaves a new message to a waiter.
MOMENT = 1e-3

#: Seconds without messages after which the thread ends.
IDLE = 1.0


def pauses() -> Iterator[float]:
    """The pauses between polls in seconds, without end."""
    yield from repeat(0.0, LOOKS)
    pause, longest = PAUSES
    while True:
        yield pause
        pause = min(1.1 * pause, longest)


class MessageProgress:
    """Reads what other ranks write, while a message waits for it.

    Attributes
    ----------
    lock : RLock
        Held while messages are matched; no thread waits for another rank with it.
    """

    def __init__(self) -> None:
        self.lock = RLock()
        self.closed = False
        self._finished: deque[tuple[Message, Callable[[Message], object]]] = deque()
        self._background: list[Message] = []
        self._serving = False
        self._wanted = Event()

    def waiting_pairs(self) -> Sequence[Pair]:
        """The pairs of which a record is waited for; the caller holds the lock."""
        raise NotImplementedError

    def withdraw(self, message: Message) -> None:
        """Give up a message."""
        raise NotImplementedError

    def close(self) -> None:
        """End the thread."""
        self.closed = True
        self._wanted.set()
        self.call_back()

    def poll(self) -> bool:
        """Read what other ranks have written to those that wait: whether they had."""
        with self.lock:
            pairs = list(self.waiting_pairs())
        found = [pair.read() for pair in pairs]
        self.call_back()
        return any(found)

    def wait(self, message: Message, until: float | None) -> bool:
        """Wait until the other rank has made its call: False if the time is up first.

        A message whose own time is up fails.
        """
        turns = pauses()
        while message.waits:
            if self.poll():
                turns = pauses()
                continue
            now = time.monotonic()
            if now >= message.deadline:
                self.withdraw(message)
            elif until is not None and now >= until:
                return False
            else:
                self._rest(min(message.deadline, until or message.deadline), turns)
        return True

    def _rest(self, until: float, turns: Iterator[float]) -> None:
        """Pause between two polls; if a single rank is waited for, until it writes."""
        with self.lock:
            waiting = self.waiting_pairs()
        left = min(until - time.monotonic(), TURN)
        if len(waiting) == 1 and waiting[0].await_record(left):
            return
        time.sleep(max(min(next(turns), left), 0))

    def tell(
        self, message: Message, callbacks: list[Callable[[Message], object]]
    ) -> None:
        """Call back when the lock is free, since callbacks may make any call."""
        self._finished.extend((message, callback) for callback in callbacks)

    def call_back(self) -> None:
        while self._finished:
            message, callback = self._finished.popleft()
            try:
                callback(message)
            except BaseException:  # as in other futures
                sys.excepthook(*sys.exc_info())

    # ---- the thread

    def in_background(self, message: Message) -> Message:
        """Let the thread make progress while nobody waits."""
        self.call_back()
        if message.waits:
            with self.lock:
                self._background.append(message)
                if not self._serving:
                    self._serving = True
                    Thread(
                        target=self._serve, name="collalgo messages", daemon=True
                    ).start()
            self._wanted.set()
        return message

    def _serve(self) -> None:
        while self._has_work():
            turns = pauses()
            time.sleep(MOMENT)
            while self._give_up_late():
                if self.poll():
                    turns = pauses()
                time.sleep(max(next(turns), PAUSES[0]))

    def _has_work(self) -> bool:
        """Wait for a message in the background; False to end the thread."""
        wanted = self._wanted.wait(IDLE)
        self._wanted.clear()
        with self.lock:
            self._serving = (wanted or bool(self._background)) and not self.closed
            return self._serving

    def _give_up_late(self) -> bool:
        """Give up the messages whose time is up: whether others wait."""
        with self.lock:
            self._background = [each for each in self._background if each.waits]
            waiting = list(self._background)
        for message in waiting:
            if time.monotonic() >= message.deadline:
                self.withdraw(message)
        return bool(waiting)
