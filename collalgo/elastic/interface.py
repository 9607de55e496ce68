"""What a rendezvous is to those who use it: agents, survivors, torchrun."""

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
        Why the epoch has begun.
    fence : Fence or None
        What a change of the store must depend on, so that it is refused as soon as a
        greater epoch has begun; None if the members cannot change.
    """

    epoch: int
    members: tuple[str, ...]
    rank: int
    why: str
    fence: Fence | None

    @property
    def size(self) -> int:
        """The number of members."""
        return len(self.members)


@dataclass(frozen=True)
class MembershipChange:
    """Why the members of an epoch have to meet again.

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
        Why the job is closed, if it is.
    """

    epoch: int
    lost: tuple[str, ...] = ()
    asking: int = 0
    waiting: int = 0
    is_expelled: bool = False
    closed: str | None = None

    @property
    def is_failure(self) -> bool:
        """Whether the epoch cannot go on; otherwise others only wait to join it."""
        return bool(self.lost or self.asking or self.is_expelled)


class Rendezvous(Protocol):
    """Where the members of a job meet for one epoch after the other."""

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
        """Take no further part; ``join`` comes back."""

    def close(self, reason: str = "") -> None:
        """Let no further epoch begin; the present one may go on to its end."""

    def waiting(self) -> int:
        """The number of processes that wait, and would become members."""

    def change(self) -> MembershipChange | None:
        """Why the members have to meet again; None if they need not."""

    def watch(self, watcher: Callable[[MembershipChange], None]) -> None:
        """Call a watcher at each change; it must neither wait nor raise."""

    def remaining(self) -> float:
        """Seconds for which this process certainly counts as alive; 0 if none.

        A process that does nothing irrevocable without time remaining cannot work
        beside an epoch that has begun without it.
        """

    def shutdown(self) -> None:
        """Leave, and release what this holds."""
