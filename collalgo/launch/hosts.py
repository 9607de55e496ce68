"""Hosts of a job, and the assignment of its ranks to them."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from collalgo.errors import BootstrapError

#: Limit of ranks on one host; more are taken for a typing error.
MAX_SLOTS = 4096

#: Limits of ranks in a job, of hosts, of bytes of a file of hosts, and of a name.
MOST_RANKS, MOST_HOSTS, LARGEST, LONGEST_NAME = 1 << 17, 10_000, 1 << 20, 255

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
    parts = [each if ":" in each else f"{each}:1" for each in text.split(",")]
    where = f"-H {text}" if len(text) < 80 else f"-H {text[:80]}..."
    _check_hosts(len(parts), where)
    hosts = []
    for part in parts:
        name, _, slots = part.strip().rpartition(":")
        hosts.append(_host(name.strip(), slots, where))
    return hosts


def read_hostfile(path: str | Path) -> list[Host]:
    """The hosts of a file, one a line: ``a slots=4``, ``a:4`` or ``a``.

    Raises
    ------
    BootstrapError
        If a line is invalid, or the file cannot be read, is no text or too large.
    """
    hosts = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        name, _, slots = words[0].partition(":")
        given = [word.partition("=")[2] for word in words if word.startswith("slots=")]
        where = f"{path}, line {number}"
        hosts.append(_host(name, given[0] if given else slots or "1", where))
        _check_hosts(len(hosts), where)
    return hosts


def _text(path: str | Path) -> str:
    """The content of a file of hosts."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
        if len(data) > LARGEST:
            raise BootstrapError(f"{path}: a file of hosts has at most {LARGEST} bytes")
        return data.decode()
    except UnicodeDecodeError:
        raise BootstrapError(
            f"{path}: this is no text, but hosts are one a line"
        ) from None
    except (OSError, ValueError) as error:
        raise BootstrapError(f"{path}: {error}") from None


def _check_hosts(count: int, where: str) -> None:
    if count > MOST_HOSTS:
        raise BootstrapError(f"{where}: more than {MOST_HOSTS} hosts")


def _host(name: str, slots: str, where: str) -> Host:
    if not NAME.fullmatch(name) or name.startswith("-") or len(name) > LONGEST_NAME:
        raise BootstrapError(f"{where}: {name[:60]!r} is no name of a host")
    if not re.fullmatch("[0-9]{1,9}", slots) or not 1 <= int(slots) <= MAX_SLOTS:
        raise BootstrapError(
            f"{where}: host {name[:60]} has {slots[:20]!r} slots; give a number from 1 "
            f"to {MAX_SLOTS}, as in {name[:60]}:4"
        )
    return Host(name, int(slots))


def check_ranks(size: int, most: int = MAX_SLOTS) -> None:
    """Refuse more ranks than one host can have, or another number.

    Raises
    ------
    BootstrapError
        If there are too many.
    """
    if size > most:
        where = "one host" if most == MAX_SLOTS else "a job"
        raise BootstrapError(f"{size} ranks: {where} can have at most {most}")


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
    check_ranks(sum(counts.values()), MOST_RANKS)
    everywhere = Counter(local for count in counts.values() for local in range(count))
    earlier: Counter[int] = Counter()
    positions: dict[Host, list[RankPosition]] = {}
    first = 0
    for host, count in counts.items():
        positions[host] = [
            RankPosition(first + local, local, count, earlier[local], everywhere[local])
            for local in range(count)
        ]
        earlier.update(range(count))
        first += count
    return positions


def _counts(hosts: Sequence[Host], size: int | None) -> dict[Host, int]:
    """The number of ranks of each host that has any."""
    names = Counter(host.name for host in hosts)
    if len(names) < len(hosts):
        ((twice, _),) = names.most_common(1)
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
