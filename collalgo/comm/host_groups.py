"""The ranks of a host, and those with one local rank, by the host of each rank."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, TypeVar

#: A kind of communicator, whose groups are of the same kind.
Groups = TypeVar("Groups", bound="HostGroups")


def local_ranks(hosts: Sequence[int], rank: int) -> tuple[int, ...]:
    """The ranks of the host of a rank."""
    return tuple(each for each, host in enumerate(hosts) if host == hosts[rank])


def cross_ranks(hosts: Sequence[int], rank: int) -> tuple[int, ...]:
    """The ranks of all hosts that have the local rank of a rank, host after host."""
    by_host: dict[int, list[int]] = {host: [] for host in hosts}
    for each, host in enumerate(hosts):
        by_host[host].append(each)
    local = by_host[hosts[rank]].index(rank)
    return tuple(ranks[local] for ranks in by_host.values() if len(ranks) > local)


class HostGroups:
    """The groups of a communicator by host and by local rank."""

    rank: int
    hosts: Sequence[int]

    @cached_property
    def _parts(self) -> dict[str, Any]:
        return {}

    def _connect(self: Groups, members: tuple[int, ...]) -> Groups:
        raise NotImplementedError

    @property
    def local(self: Groups) -> Groups:
        """The communicator of the ranks of this host, in their order.

        All of them must ask for it the first time. In the world of a launcher its rank
        is ``LOCAL_RANK``.
        """
        return self._kept("local", local_ranks(self.hosts, self.rank))

    @property
    def cross(self: Groups) -> Groups:
        """The communicator of the ranks with the local rank of this one, of all hosts.

        As for :attr:`local`; its rank is ``CROSS_RANK``.
        """
        return self._kept("cross", cross_ranks(self.hosts, self.rank))

    def _kept(self: Groups, name: str, members: tuple[int, ...]) -> Groups:
        """A group that is made at its first use, and again when it was closed."""
        found = self._parts.get(name)
        if found is None or found.closed:
            found = self._parts[name] = self._connect(members)
        return found
