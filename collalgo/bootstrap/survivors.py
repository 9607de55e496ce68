"""The survivors of a world: they agree on the lost ranks, and connect as a new world.

They agree in rounds. A survivor enters a round, and waits until each other rank has
entered too, or is lost. The first that knows this of all ranks decides which are lost,
and the others accept its decision: on one host by a word in the shared memory, on
several hosts by a key of the store. Then they connect. If one has died after it had
entered, no rank connects, and all enter the next round.
"""

import json
import time
from collections.abc import Callable, Iterable, Sequence
from threading import Condition
from typing import Generic, Protocol, TypeVar

from collalgo._kernels.engine.transport import survivors
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.bootstrap.store.protocol import ABSENT, Change, KeyValueStore
from collalgo.errors import CollectiveTimeout, PeerFailed

#: A new world, as one of its ranks has it.
World = TypeVar("World")
World_co = TypeVar("World_co", covariant=True)

#: Seconds of a wait without a limit, where it takes no infinite time.
LONGEST_SECONDS = 1e8

#: Seconds of one wait for a decision, after which signals are handled.
TURN_SECONDS = 0.02


class Survivors(Protocol):
    """The agreement of the ranks of a world on the lost ranks."""

    def enter_round(self, number: int) -> None:
        """Enter a round; again has no effect."""

    def decision(self, number: int, seconds: float) -> Iterable[int] | None:
        """The lost ranks by the decision of a round; None after the timeout."""

    def missing(self, number: int) -> list[int]:
        """The ranks that have not entered a round."""

    def is_gone(self, rank: int) -> bool:
        """Whether a rank is known to have left or ended."""


class SurvivorRendezvous(Protocol[World_co]):
    """Connects survivors as a new world."""

    def connect_survivors(
        self,
        name: str,
        rank: int,
        members: Sequence[int],
        timeout: float,
        is_gone: Callable[[int], bool],
    ) -> World_co | None:
        """Connect the survivors; None on all if one ends before it has joined."""


class HostSurvivors:
    """The survivors of a world on one host, or of threads.

    Parameters
    ----------
    shared
        The transport of this rank in the world.
    """

    def __init__(self, shared: SharedMemory):
        self._shared = shared

    def enter_round(self, number: int) -> None:
        """Enter a round; again has no effect."""
        survivors.enter_round(self._shared, number)

    def decision(self, number: int, seconds: float) -> Iterable[int] | None:
        """The lost ranks by the decision of a round; None after the timeout."""
        return survivors.await_decision(self._shared, number, seconds)

    def missing(self, number: int) -> list[int]:
        """The ranks that have not entered a round."""
        return survivors.missing(self._shared, number)

    def is_gone(self, rank: int) -> bool:
        """Whether a rank is known to have left or ended."""
        return self._shared.departure(rank) is not None


class StoreSurvivors:
    """The survivors of a world on several hosts, over the store of their job.

    Parameters
    ----------
    store
        The store.
    name
        The name of the world, the same for all its ranks.
    rank, size
        This rank, and the number of ranks.
    gone
        Returns the ranks that are known to have left or ended.
    """

    def __init__(
        self,
        store: KeyValueStore,
        name: str,
        rank: int,
        size: int,
        gone: Callable[[], set[int]],
    ):
        self._store, self._name = store, name
        self._rank, self._size, self._gone = rank, size, gone
        self._come: dict[int, set[int]] = {}
        self._decided: dict[int, list[int]] = {}
        self._changed = Condition()

    def enter_round(self, number: int) -> None:
        """Enter a round; again has no effect."""
        if number not in self._come:
            self._come[number] = set()
            self._store.watch(f"{self._prefix(number)}/", self._note)
        self._store.set(f"{self._prefix(number)}/{self._rank}", b"")

    def decision(self, number: int, seconds: float) -> Iterable[int] | None:
        """The lost ranks by the decision of a round; None after the timeout."""
        end = time.monotonic() + seconds
        with self._changed:
            while number not in self._decided:
                found = self._settled(number)
                if found is not None:
                    break
                if time.monotonic() >= end:
                    return None
                self._changed.wait(TURN_SECONDS / 10)  # nothing announces departures
            else:
                return self._decided[number]
        return self._decide(number, found)

    def missing(self, number: int) -> list[int]:
        """The ranks that have not entered a round."""
        return [each for each in range(self._size) if each not in self._come[number]]

    def is_gone(self, rank: int) -> bool:
        """Whether a rank is known to have left or ended."""
        return rank in self._gone()

    def _settled(self, number: int) -> list[int] | None:
        """The lost ranks; None if a rank has neither entered the round nor left.

        A rank may leave once it has entered, so its entry is checked last.
        """
        gone = self._gone()
        missing = self.missing(number)
        return missing if gone.issuperset(missing) else None

    def _decide(self, number: int, gone: list[int]) -> Iterable[int]:
        """Decide which ranks are lost, unless another rank has done so."""
        key = f"{self._prefix(number)}/decision"
        entry = self._store.compare_set(key, json.dumps(gone).encode(), ABSENT).entry
        assert entry is not None
        found: list[int] = json.loads(entry.value)
        return found

    def _prefix(self, number: int) -> str:
        return f"survivors/{self._name}/{number}"

    def _note(self, change: Change) -> None:
        path, _, what = change.key.rpartition("/")
        number = int(path.rpartition("/")[2])
        with self._changed:
            if what == "decision" and change.value is not None:
                self._decided[number] = json.loads(change.value)
            elif change.value is not None:
                self._come[number].add(int(what))
            self._changed.notify_all()


def living(
    among: Survivors,
    number: int,
    rank: int,
    size: int,
    timeout: float,
    check: Callable[[], None],
) -> tuple[int, ...]:
    """The survivors of a world of ``size`` ranks, as a round has decided.

    ``check`` is called while it waits; an error that it raises ends the wait.

    Raises
    ------
    CollectiveTimeout
        If a rank that is alive does not enter in time.
    PeerFailed
        If the others have continued without this rank, which they could not reach.
    """
    end = time.monotonic() + timeout
    among.enter_round(number)
    while (gone := among.decision(number, TURN_SECONDS)) is None:
        check()
        if time.monotonic() >= end:
            late = [each for each in among.missing(number) if not among.is_gone(each)]
            raise _too_late(late, rank, timeout)
    lost = set(gone)
    if rank in lost:
        raise PeerFailed(
            f"shrink: the others continue without rank {rank}, as it could not be "
            "reached; end this process, and start another one",
            rank=rank,
            collective="shrink",
        )
    return tuple(each for each in range(size) if each not in lost)


def _too_late(missing: list[int], rank: int, timeout: float) -> CollectiveTimeout:
    """The error if ranks that are alive have not entered in time."""
    return CollectiveTimeout(
        f"shrink: rank {rank} waited {timeout:g} s for ranks {missing}, which are "
        "alive and have not called it; call it there too, or pass a longer timeout",
        rank=rank,
        collective="shrink",
        missing=tuple(missing),
    )


class SurvivorRounds(Generic[World]):
    """The rounds in which the survivors of a world agree and connect, on one rank.

    Parameters
    ----------
    among
        Their agreement.
    rank, size
        This rank, and the number of ranks of the world.
    """

    def __init__(self, among: Survivors, rank: int, size: int):
        self._among, self._rank, self._size = among, rank, size
        self._rounds = 0

    def connect(
        self,
        rendezvous: SurvivorRendezvous[World],
        timeout: float,
        check: Callable[[], None],
    ) -> World:
        """Connect with the other survivors, as a new world."""
        end = time.monotonic() + min(timeout, LONGEST_SECONDS)
        while True:
            number, left = self._rounds + 1, max(end - time.monotonic(), 0.0)
            of_round = self._among, number, self._rank, self._size
            members = living(*of_round, left, check)
            self._rounds, left = number, max(end - time.monotonic(), 0.0)
            of_members = members.index(self._rank), members, left, self._among.is_gone
            found = rendezvous.connect_survivors(f"shrink#{number}", *of_members)
            if found is not None:
                return found
