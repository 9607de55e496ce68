"""The interface of a rendezvous, for agents, survivors and torchrun."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from collalgo.bootstrap.store.protocol import Fence


@dataclass(frozen=True)
class Membership:
    """A place in an epoch.

    Attributes
    ----------
    epoch : int
        The number of the epoch, from 1; each is greater than all before.
    members : tuple of str
        The names of the nodes in the order of their ranks. Survivors keep their order;
        newcomers follow.
    rank : int
        The place of this process among them.
    why : str
        The reason of the epoch.
    fence : Fence or None
        The fence of changes of the store, so that they are refused as soon as a greater
        epoch has begun; None if the members cannot change.
    tokens : tuple of str
        The tokens of the processes of the members in the store, by rank; empty without
        such a store.
    """

    epoch: int
    members: tuple[str, ...]
    rank: int
    why: str
    fence: Fence | None
    tokens: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)


@dataclass(frozen=True)
class MembershipChange:
    """The reason for the next round.

    Attributes
    ----------
    epoch : int
        The epoch that has to end.
    lost : tuple of str
        Names of members that have ended, left or been excluded.
    asking : int
        The number of members that wait for the others in ``join``.
    waiting : int
        The number of processes that wait, and would become members.
    is_expelled : bool
        Whether a greater epoch has begun without this process.
    closed : str or None
        The reason why the job is closed, maybe empty; None if it is open.
    is_full : bool
        Whether those that wait would take all places that are free.
    """

    epoch: int
    lost: tuple[str, ...] = ()
    asking: int = 0
    waiting: int = 0
    is_expelled: bool = False
    closed: str | None = None
    is_full: bool = False

    @property
    def is_failure(self) -> bool:
        """Whether the epoch cannot go on; otherwise others only wait to join it."""
        return bool(self.lost or self.asking or self.is_expelled)


class Rendezvous(Protocol):
    """The rendezvous of the members of a job, for one epoch after the other."""

    def join(self, timeout: float | None = None) -> Membership:
        """Wait until this process is a member of an epoch greater than its last.

        All living members have to call it for the next epoch to begin.

        Raises
        ------
        RendezvousClosed
            If the job is closed.
        RendezvousError
            If there are too few members in time, this process is excluded or differs
            from the others in its terms, or the store cannot be reached.
        """

    def leave(self) -> None:
        """Take no further part; ``join`` returns."""

    def close(self, reason: str = "") -> None:
        """Allow no further epoch; the present one may continue to its end."""

    def waiting(self) -> int:
        """The number of waiting processes that the next epoch would admit."""

    def change(self) -> MembershipChange | None:
        """The reason for the next round, or None."""

    def watch(self, watcher: Callable[[MembershipChange], None]) -> None:
        """Call a watcher at each change; it must neither wait nor raise.

        A change without a reason for a round replaces one that is over.
        """

    def remaining(self) -> float:
        """Seconds for which this process certainly counts as alive; 0 if none.

        A process that takes irrevocable actions only with time remaining cannot
        interfere with an epoch that has begun without it.
        """

    def shutdown(self) -> None:
        """Leave, and release all resources."""
