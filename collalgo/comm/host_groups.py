"""The ranks of a host, and those with one local rank, by the host of each rank."""

from collections.abc import Sequence


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
