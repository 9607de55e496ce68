"""Receive from any source: from the first sender."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import repeat
from threading import Lock, Thread
from typing import Any

import numpy as np

from collalgo.comm.point_to_point.message import Message
from collalgo.comm.point_to_point.pair import Home, Pair
from collalgo.engine.devices.arrays import for_another_thread
from collalgo.errors import CollectiveTimeout, CommunicatorClosed, PeerFailed

#: The number of polls of all ranks without a pause.
LOOKS = 50

#: The first and the longest pause between two later polls, in seconds.
PAUSES = 5e-5, 2e-3


def _pauses() -> Iterator[float]:
    """The pauses between polls in seconds, without end."""
    yield from repeat(0.0, LOOKS)
    pause, longest = PAUSES
    while True:
        yield pause
        pause = min(1.1 * pause, longest)


class AnySource:
    """Receives messages with one tag from any rank, one after the other.

    Parameters
    ----------
    pairs
        The pairs of this rank with each of the others, for the tag.
    home
        Returns the runner of the communicator, or None after its end.
    me
        This rank.
    tag
        The tag.
    """

    def __init__(self, pairs: Sequence[Pair], home: Home, me: int, tag: int):
        self._pairs = deque(pairs)  # in the order of the next poll
        self._home = home
        self._me, self._tag = me, tag
        self._queue: deque[tuple[Message, Any, float]] = deque()
        self._serving = False
        self._lock = Lock()

    def recv(self, buf: Any, timeout: float) -> Any:
        return self._receive("recv", buf, timeout).wait()

    def irecv(self, buf: Any, timeout: float) -> Message:
        return self._receive("irecv", buf, timeout)

    def _receive(self, name: str, buf: Any, timeout: float) -> Message:
        if 0 in np.shape(buf):
            raise ValueError(
                f"{name}: rank {self._me} cannot receive a message without elements "
                "from any source, since no bytes are sent for it; name its source"
            )
        message = Message(name, buf, None)
        buf = for_another_thread(buf, name)
        with self._lock:
            self._queue.append((message, buf, timeout))
            if not self._serving:
                self._serving = True
                Thread(
                    target=self._serve, name="collalgo any source", daemon=True
                ).start()
        return message

    def _serve(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._serving = False
                    return
                message, buf, timeout = self._queue.popleft()
            try:
                pair = self._first_caller(message.name, timeout)
            except BaseException as error:
                message.fail(error)
            else:
                pair.receive(message, buf)

    def _first_caller(self, call: str, timeout: float) -> Pair:
        """Wait for the first rank that sends."""
        deadline = time.monotonic() + timeout
        for pair in self._pairs:
            pair.start_connecting(call, timeout)
        pauses = _pauses()
        while True:
            states = [pair.peer_state() for pair in self._pairs]
            if "called" in states:
                self._pairs.rotate(-states.index("called") - 1)
                return self._pairs[-1]
            if "quiet" not in states:
                raise self._all_left(call)
            if self._home() is None:
                raise CommunicatorClosed(f"{call}: the communicator is gone")
            if time.monotonic() >= deadline:
                raise self._timed_out(call, timeout)
            time.sleep(next(pauses))

    def _all_left(self, call: str) -> PeerFailed:
        return PeerFailed(
            f"{call}: rank {self._me} waits for a message from any rank under tag "
            f"{self._tag}, but all others have closed their communicator",
            rank=self._me,
            missing=self._others(),
        )

    def _timed_out(self, call: str, timeout: float) -> CollectiveTimeout:
        return CollectiveTimeout(
            f"{call}: rank {self._me} waited {timeout:g} s for a message from any rank "
            f"under tag {self._tag}; send one, or wait longer",
            rank=self._me,
            missing=self._others(),
        )

    def _others(self) -> tuple[int, ...]:
        return tuple(sorted(pair.peer for pair in self._pairs))
