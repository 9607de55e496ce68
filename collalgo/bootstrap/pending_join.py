"""The store of a job for processes that wait for each other to join a world."""

from collections.abc import Container, Iterator, Sequence
from typing import Protocol

from collalgo.bootstrap.exchange import values_of
from collalgo.bootstrap.liveness_check import LivenessWatch, ProcessGone
from collalgo.bootstrap.store.protocol import KeyValueStore, present
from collalgo.errors import BootstrapError


class Processes(Protocol):
    """The processes of a job, as one of them sees them; see :class:`.Membership`."""

    store: KeyValueStore
    rank: int
    liveness: LivenessWatch

    def get(self, key: str, timeout: float, joining: "PendingJoin") -> bytes:
        """The value of a key, unless one of the joining processes has ended."""

    def claimed_twice(self, ranks: Container[int]) -> int | None:
        """A rank that two processes claim to be; None if no rank has two."""

    def first_gone(self, ranks: Container[int]) -> tuple[int, str] | None:
        """The first of some processes that has ended, and why; None if all live."""


def joined_twice(me: int, rank: int) -> BootstrapError:
    """The error of a join in which two processes have the same rank."""
    return BootstrapError(
        f"rank {me} cannot join: two processes have joined as rank {rank}; start each "
        "rank once, and give each job a secret or an address of its own",
        rank=me,
    )


class PendingJoin:
    """The store of a job for processes that wait for each other to join a world.

    A wait fails as soon as one of the processes has ended.

    Parameters
    ----------
    membership
        The processes of the job.
    ranks
        The ranks in the job of those that join.
    names
        The ranks by which errors call them.
    """

    def __init__(
        self, membership: Processes, ranks: Sequence[int], names: Sequence[int]
    ):
        self._membership = membership
        self._ranks = tuple(ranks)
        self._name = dict(zip(ranks, names, strict=True))

    def of(self, members: Sequence[int]) -> "PendingJoin":
        """The same for some of the processes, which keep their names in errors."""
        ranks = [self._ranks[member] for member in members]
        return PendingJoin(self._membership, ranks, members)

    def set(self, key: str, value: bytes) -> None:
        """Set a key."""
        self._membership.store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """Wait for the value of a key that one of the processes sets.

        Raises
        ------
        StoreError
            If the key is not set in time.
        BootstrapError
            If one of the processes has ended.
        """
        return self._membership.get(key, timeout, self)

    def present(self, prefix: str) -> dict[str, bytes]:
        """The values of the keys with a prefix that exist now."""
        return present(self._membership.store, prefix)

    def each(self, prefix: str, count: int, timeout: float) -> Iterator[bytes]:
        """Wait for the values of a prefix and each number from 0 on, as :meth:`get`."""
        return values_of(self, prefix, count, timeout)

    def check(self) -> None:
        """Raise BootstrapError if one of the processes has ended."""
        if error := self.obstacle():
            raise error
        self._membership.liveness.check()

    def obstacle(self) -> BootstrapError | None:
        """The error of the join if one of the processes has ended, or has a twin."""
        twice = self._membership.claimed_twice(self._name)
        if twice is not None:
            me = self._name[self._membership.rank]
            return joined_twice(me, self._name[twice])
        gone = self._membership.first_gone(self._name)
        if gone is None:
            return None
        me, other = self._name[self._membership.rank], self._name[gone[0]]
        return ProcessGone(me, other, gone[1])
