"""Members of a job that commit steps, each in a process of its own."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from collalgo.bench.disturbances.trials import ProcessEnded

from collalgo import elastic
from collalgo.bootstrap.store.protocol import Fenced, StoreError
from collalgo.elastic.store_rendezvous import StoreRendezvous

#: Seconds of each wait.
PATIENCE = 60.0

#: Seconds after which a member that does not answer is lost.
SILENCE = 2.0

SECRET = "00ff"


class Joined(NamedTuple):
    """An epoch that a member has joined.

    Attributes
    ----------
    epoch, size : int
        The epoch, and its number of members.
    time : float
        When, by the monotonic clock.
    committed : float
        When its last commit was acknowledged, before it joined; 0 if it has none.
    """

    epoch: int
    size: int
    time: float
    committed: float


# ---- the process


def member(url: str, name: str, least: int, most: int) -> None:
    """Join a job, and commit steps; SIGUSR1 starts a new round."""
    settings = elastic.Settings(least, most, last_call=0.1, silence=SILENCE)
    meeting = elastic.rendezvous(url, "bench", settings, name, bytes.fromhex(SECRET))
    assert isinstance(meeting, StoreRendezvous)
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    committed = 0.0
    while True:
        place = meeting.join()
        joined = Joined(place.epoch, place.size, time.monotonic(), committed)
        print(json.dumps(joined), flush=True)
        asked.clear()
        with suppress(Fenced):
            while not asked and not _must_meet(meeting.change()):
                committed = _commit(meeting, place) or committed
                time.sleep(0.005)


def _must_meet(change: elastic.MembershipChange | None) -> bool:
    """Whether a member was lost, or others wait."""
    return change is not None and (change.is_failure or change.waiting > 0)


def _commit(meeting: StoreRendezvous, place: elastic.Membership) -> float:
    """Commit a step: the time of its acknowledgement; 0 without an answer."""
    assert place.fence is not None
    with suppress(StoreError):
        meeting.store.set("epoch/step", b"", fences=[place.fence])
        return time.monotonic()
    return 0.0


# ---- its parent


class Member:
    """A member in a process of its own, and its messages.

    Parameters
    ----------
    url
        The URL of the rendezvous.
    name
        The name of the member.
    least, most
        The number of members of the job.
    prefix
        The prefix of its command, to start it on another host.
    """

    def __init__(
        self, url: str, name: str, least: int, most: int, prefix: Sequence[str] = ()
    ):
        self._name = name
        words = [sys.executable, "-m", "collalgo.bench.disturbances.members"]
        self.process = subprocess.Popen(
            [*prefix, *words, url, name, str(least), str(most)],
            stdout=subprocess.PIPE,
        )
        assert self.process.stdout is not None
        self._pipe, self._told = self.process.stdout.fileno(), b""

    def until(self, size: int, after: int = 0, timeout: float = PATIENCE) -> Joined:
        """Wait until it has joined an epoch of this size after another.

        Raises
        ------
        TimeoutError
            If it does not in time.
        ProcessEnded
            If it has ended.
        """
        end = time.monotonic() + timeout
        while True:
            line = self._line(end)
            if line is None:
                raise TimeoutError(
                    f"member {self._name} has joined no epoch of {size} members within "
                    f"{timeout:g} s"
                )
            joined = Joined(*json.loads(line))
            if joined.size == size and joined.epoch > after:
                return joined

    def _line(self, end: float) -> bytes | None:
        """The next line that it prints; None if it does not in time."""
        while b"\n" not in self._told:
            left = max(end - time.monotonic(), 0.0)
            if not select.select([self._pipe], [], [], left)[0]:
                return None
            part = os.read(self._pipe, 65536)
            if not part:
                raise ProcessEnded(f"member {self._name} has ended")
            self._told += part
        line, _, self._told = self._told.partition(b"\n")
        return line

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def members(
    url: str, least: int, prefixes: Sequence[Sequence[str]]
) -> Iterator[tuple[list[Member], int]]:
    """Members of a job that all have joined, and the number of their epoch.

    ``prefixes`` has the prefix of the command of each.
    """
    most = len(prefixes)
    made = [
        Member(url, f"n{number}", least, most, prefix)
        for number, prefix in enumerate(prefixes)
    ]
    try:
        yield made, max(each.until(most).epoch for each in made)
    finally:
        for each in made:
            each.end()


if __name__ == "__main__":
    member(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
