"""Which hosts a job runs on, and which ranks on each."""

import re
from dataclasses import dataclass
from pathlib import Path

from collalgo.errors import BootstrapError

#: More ranks than this on one host are a mistake.
MOST_SLOTS = 4096

#: What a host may be called: no option of ssh, and nothing for a shell.
NAME = re.compile(r"[A-Za-z0-9_.@\[\]%-]+")


@dataclass(frozen=True)
class Host:
    """A host of a job.

    Attributes
    ----------
    name : str
        As ssh knows it.
    slots : int
        How many ranks it has, or may have.
    """

    name: str
    slots: int


@dataclass(frozen=True)
class Place:
    """Where a rank is.

    Attributes
    ----------
    rank : int
        In the job.
    local_rank, local_size : int
        Among the ranks of its host.
    cross_rank, cross_size : int
        Among the ranks of all hosts that have this local rank.
    """

    rank: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def parse(text: str) -> list[Host]:
    """The hosts of ``a:4,b:2``; without a number a host has one slot.

    Raises
    ------
    BootstrapError
        If a name or a number is none.
    """
    hosts = []
    for part in (each if ":" in each else f"{each}:1" for each in text.split(",")):
        name, _, slots = (
            part.strip().rpartition(":") if ":" in part else (part, "", "1")
        )
        hosts.append(_host(name.strip(), slots, f"-H {text}"))
    return hosts


def read(path: str | Path) -> list[Host]:
    """The hosts of a file: a line for each, as ``a slots=4``, ``a:4`` or ``a``."""
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
    if not slots.isdigit() or not 1 <= int(slots) <= MOST_SLOTS:
        raise BootstrapError(
            f"{where}: host {name} has {slots!r} slots; give a number from 1 to "
            f"{MOST_SLOTS}, as in {name}:4"
        )
    return Host(name, int(slots))


def assign(hosts: list[Host], size: int | None) -> dict[Host, list[Place]]:
    """Fill the slots, host after host, with so many ranks, or all of them.

    Raises
    ------
    BootstrapError
        If there are too few slots, or a host is named twice.
    """
    names = [host.name for host in hosts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BootstrapError(f"host {twice} is named twice; add its slots up")
    slots = sum(host.slots for host in hosts)
    size = slots if size is None else size
    if size > slots:
        raise BootstrapError(
            f"{size} ranks do not fit into {slots} slots of {len(hosts)} hosts; give "
            "the hosts more slots, as in -H a:4,b:4"
        )
    filled: dict[Host, int] = {}
    left = size
    for host in hosts:
        filled[host] = min(host.slots, left)
        left -= filled[host]
    used = {host: count for host, count in filled.items() if count}
    places: dict[Host, list[Place]] = {host: [] for host in used}
    rank = 0
    for number, (host, count) in enumerate(used.items()):
        earlier, all_counts = list(used.values())[:number], list(used.values())
        for local in range(count):
            cross = sum(other > local for other in earlier)
            across = sum(other > local for other in all_counts)
            places[host].append(Place(rank, local, count, cross, across))
            rank += 1
    return places
