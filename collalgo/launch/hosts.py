"""Hosts of a job, and the assignment of its ranks to them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collalgo.errors import BootstrapError

#: Limit of ranks on one host; more are taken for a typing error.
MAX_SLOTS = 4096

#: Valid host names: no option of ssh, and no character that a shell interprets.
NAME = re.compile(r"[A-Za-z0-9_.@\[\]%-]+")


@dataclass(frozen=True)
class Host:
    """A host of a job.

    Attributes
    ----------
    name : str
        Its name for ssh.
    slots : int
        Number of ranks that it can take.
    """

    name: str
    slots: int


@dataclass(frozen=True)
class RankPosition:
    """Position of a rank in its job, on its host and across hosts.

    Attributes
    ----------
    rank : int
        In the job.
    local_rank, local_size : int
        Among the ranks of its host.
    cross_rank, cross_size : int
        Among the ranks with the same local rank on all hosts.
    """

    rank: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def parse_hosts(text: str) -> list[Host]:
    """The hosts of ``a:4,b:2``; the default is one slot.

    Raises
    ------
    BootstrapError
        If a name or a number of slots is invalid.
    """
    hosts = []
    for part in (each if ":" in each else f"{each}:1" for each in text.split(",")):
        name, _, slots = part.strip().rpartition(":")
        hosts.append(_host(name.strip(), slots, f"-H {text}"))
    return hosts


def read_hostfile(path: str | Path) -> list[Host]:
    """The hosts of a file, one a line: ``a slots=4``, ``a:4`` or ``a``."""
    hosts = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, _, slots = words[0].partition(":")
        given = [word.partition("=")[2] for word in words if word.startswith("slots=")]
        where = f"{path}, line {number}"
        hosts.append(_host(name, given[0] if given else slots or "1", where))
    return hosts


def _host(name: str, slots: str, where: str) -> Host:
    if not NAME.fullmatch(name) or name.startswith("-"):
        raise BootstrapError(f"{where}: {name!r} is no name of a host")
    if not slots.isdigit() or not 1 <= int(slots) <= MAX_SLOTS:
        raise BootstrapError(
            f"{where}: host {name} has {slots!r} slots; give a number from 1 to "
            f"{MAX_SLOTS}, as in {name}:4"
        )
    return Host(name, int(slots))


def assign_ranks(
    hosts: Sequence[Host], size: int | None
) -> dict[Host, list[RankPosition]]:
    """Fill the slots, host after host, with ``size`` ranks, by default all slots.

    Raises
    ------
    BootstrapError
        If there are fewer slots than ranks, or a host is named twice.
    """
    counts = _counts(hosts, size)
    positions: dict[Host, list[RankPosition]] = {}
    first = 0
    for number, (host, count) in enumerate(counts.items()):
        earlier, everywhere = list(counts.values())[:number], list(counts.values())
        positions[host] = [
            RankPosition(
                first + local,
                local,
                count,
                sum(other > local for other in earlier),
                sum(other > local for other in everywhere),
            )
            for local in range(count)
        ]
        first += count
    return positions


def _counts(hosts: Sequence[Host], size: int | None) -> dict[Host, int]:
    """The number of ranks of each host that has any."""
    names = [host.name for host in hosts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BootstrapError(f"host {twice} is named twice; add its slots up")
    slots = sum(host.slots for host in hosts)
    left = slots if size is None else size
    if left > slots:
        raise BootstrapError(
            f"{left} ranks do not fit into {slots} slots of {len(hosts)} hosts; give "
            "the hosts more slots, as in -H a:4,b:4"
        )
    counts: dict[Host, int] = {}
    for host in hosts:
        if count := min(host.slots, left):
            counts[host] = count
        left -= count
    return counts
