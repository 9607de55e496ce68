"""A rendezvous of fixed members, without a store: the job does not change."""

from collections.abc import Callable

from collalgo.elastic.interface import Membership, MembershipChange
from collalgo.errors import RendezvousClosed, RendezvousError


class StaticRendezvous:
    """A :class:`~.interface.Rendezvous` of nodes whose names are all known.

    Parameters
    ----------
    members
        The names of all nodes, in the order of their ranks.
    name
        The name of this node.

    Raises
    ------
    ValueError
        If the names are not different, or that of this node is not among them.
    """

    def __init__(self, members: tuple[str, ...], name: str):
        if len(set(members)) < len(members) or name not in members:
            raise ValueError(
                f"node {name!r} must be one of the members, which must differ: "
                + ", ".join(members)
            )
        self._membership = Membership(1, members, members.index(name), "it began", None)
        self._has_joined = False
        self._closed: str | None = None

    def join(self, timeout: float | None = None) -> Membership:
        """The one membership; a second one would need members that change."""
        del timeout  # there are no others to wait for
        if self._closed is not None:
            raise RendezvousClosed(f"the job is closed ({self._closed or 'it ended'})")
        if self._has_joined:
            raise RendezvousError(
                "the members of this job are fixed, and a second epoch would need "
                "others; choose a rendezvous with a store (collalgo://, etcd://)"
            )
        self._has_joined = True
        return self._membership

    def leave(self) -> None:
        """Take no further part."""

    def close(self, reason: str = "") -> None:
        """Refuse further joins of this node."""
        self._closed = reason

    def waiting(self) -> int:
        """0, as no process waits."""
        return 0

    def change(self) -> MembershipChange | None:
        """None: the members are fixed."""
        return None

    def watch(self, watcher: Callable[[MembershipChange], None]) -> None:
        """Do nothing: the members never change."""

    def remaining(self) -> float:
        """Seconds for which this node counts as alive: infinite."""
        return float("inf")

    def shutdown(self) -> None:
        """Release nothing."""
