"""Hosts of a job, and the assignment of its ranks to them."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address
from itertools import count as count_up, islice
from pathlib import Path
from typing import Any

from collalgo._kernels.engine.transport.segment import RANKS
from collalgo.base.input_files import read_text
from collalgo.base.units import counted
from collalgo.bootstrap.launcher_variables import MOST_RANKS
from collalgo.errors import BootstrapError

#: Limit of ranks on one host.
MAX_SLOTS = RANKS

#: Valid host names, after a user's: no option of ssh, and no character that a shell
#: interprets.
NAME = re.compile(r"(?!-)[A-Za-z0-9_.@%-]{1,320}")

#: An IPv6 address in brackets, perhaps of a user, and what follows.
IN_BRACKETS = re.compile(r"((?:[^\[\]@]*@)?)\[([^\[\]]*)\](?::(.*))?", re.DOTALL)

SLOTS = re.compile(r"[0-9]{1,9}")

#: The settings of a line; those of MPICH, the last two, do not change the ranks.
SETTINGS = {"slots", "max_slots", "max-slots", "binding", "ifname"}

#: The most bytes of a file of hosts: of some 100,000 lines.
LARGEST = 4 << 20

#: The most characters of the input that an error quotes.
QUOTED = 60


@dataclass(frozen=True)
class Host:
    """A host of a job.

    Attributes
    ----------
    name : str
        Its name for ssh; an IPv6 address has no brackets.
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
    rank, size : int
        In the job.
    local_rank, local_size : int
        Among the ranks of its host.
    cross_rank, cross_size : int or None
        Among the ranks with the same local rank on all hosts; None if that is unknown.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int | None
    cross_size: int | None


def parse_hosts(text: str) -> list[Host]:
    """The hosts of ``a:4,[::1]:2``; the default is one slot.

    Raises
    ------
    BootstrapError
        If a name or a number of slots is invalid.
    """
    hosts, where = [], f"-H {_quoted(text)}"
    for part in text.split(","):
        name, slots = _split(part.strip(), where)
        given = "1" if slots is None else slots
        hosts.append(checked_host(name.strip(), given, where))
    return hosts


def _split(word: str, where: str) -> tuple[str, str | None]:
    """The name and the slots of ``a:4`` or ``[::1]:4``; None without slots."""
    if is_ipv6(word.rpartition("@")[2]):
        raise BootstrapError(
            f"{where}: write the IPv6 address {_quoted(word)} in brackets: [::1]:4"
        )
    if found := IN_BRACKETS.fullmatch(word):
        user, address, slots = found.groups()
        return (f"{user}{address}" if is_ipv6(address) else word), slots
    name, colon, slots = word.rpartition(":")
    return (name, slots) if colon else (word, None)


def is_ipv6(text: str) -> bool:
    """Whether a text is an IPv6 address, perhaps of an interface: ``fe80::1%eth0``."""
    address, percent, interface = text.partition("%")
    try:
        IPv6Address(address)
    except ValueError:
        return False
    return not percent or bool(NAME.fullmatch(interface))


def hosts_of(given: str | os.PathLike[str] | Sequence[str]) -> list[Host]:
    """Hosts as users give them.

    Parameters
    ----------
    given
        ``"a:4,b:4"``, a sequence of ``"a:4"``, or the path of a file of hosts: a
        ``Path``, or text with a slash.

    Raises
    ------
    BootstrapError
        If a host is invalid, no host is named, or the file cannot be read.
    """
    if isinstance(given, os.PathLike) or (isinstance(given, str) and "/" in given):
        return read_hostfile(given)
    words: Any = [given] if isinstance(given, str) else given
    is_list = isinstance(words, Sequence) and words
    if not is_list or not all(isinstance(word, str) for word in words):
        raise BootstrapError(
            f"hosts is {_quoted(repr(given))}; pass 'a:4,b:4', a list of 'a:4', or the "
            "path of a file"
        )
    return parse_hosts(",".join(words))


def read_hostfile(path: str | os.PathLike[str]) -> list[Host]:
    """The hosts of a file, one per line: ``a slots=4``, ``a:4``, ``a`` or ``[::1]``.

    Raises
    ------
    BootstrapError
        If it cannot be read, or a name or a number of slots is invalid.
    """
    hosts = hosts_of_text(text_of(Path(path)), str(path))
    if not hosts:
        raise BootstrapError(f"{path} names no host; write one per line, as: a slots=4")
    return hosts


def hosts_of_text(text: str, where: str, slots: int = 1) -> list[Host]:
    """The hosts of some lines, each with a number of slots if it names none.

    Raises
    ------
    BootstrapError
        If a name or a number of slots is invalid.
    """
    lines = (line.partition("#")[0].split() for line in text.splitlines())
    return [
        _host_of_line(words, f"{where}, line {number}", str(slots))
        for number, words in enumerate(lines, 1)
        if words
    ]


def _host_of_line(words: list[str], where: str, usual: str) -> Host:
    """The host of a line, which may have some settings of other launchers, too."""
    name, slots = _split(words[0], where)
    given = {} if slots is None else {"slots": slots}
    for word in words[1:]:
        _add_setting(given, word, where)
    host = checked_host(name, given.get("slots", usual), where)
    most = given.get("max_slots", str(host.slots))
    if not SLOTS.fullmatch(most) or host.slots > int(most):
        raise BootstrapError(
            f"{where}: host {_quoted(name)} has {host.slots} slots, but max_slots is "
            f"{_quoted(most)}; give at most as many slots"
        )
    return host


def _add_setting(given: dict[str, str], word: str, where: str) -> None:
    """Add a setting of a line, as ``slots=4``."""
    key, equals, value = word.partition("=")
    if not equals or key not in SETTINGS:
        raise BootstrapError(
            f"{where}: {_quoted(word)!r} is not a setting; write one host a line: "
            "a slots=4"
        )
    key = key.replace("-", "_")
    if key in given:
        raise BootstrapError(f"{where}: {key} is given twice; give it once")
    given[key] = value or "missing"


def text_of(path: Path) -> str:
    """The text of a file of hosts.

    Raises
    ------
    BootstrapError
        If it cannot be read, is too large, or is not text.
    """
    try:
        return read_text(path, LARGEST)
    except ValueError as error:
        raise BootstrapError(f"{path} holds no hosts: {error}") from None


def _quoted(text: str) -> str:
    """The beginning of some input, for an error."""
    return text if len(text) <= QUOTED else f"{text[:QUOTED]}..."


def checked_host(name: str, slots: str, where: str) -> Host:
    """A host of some input.

    Raises
    ------
    BootstrapError
        If the name or the number of slots is invalid.
    """
    user, at, address = name.rpartition("@")
    is_name = NAME.fullmatch(f"{user}{at}a" if is_ipv6(address) else name)
    if not is_name:
        raise BootstrapError(f"{where}: {_quoted(name)!r} is not the name of a host")
    if not SLOTS.fullmatch(slots) or not 1 <= int(slots) <= MAX_SLOTS:
        raise BootstrapError(
            f"{where}: host {_quoted(name)} has {_quoted(slots)!r} slots; give a "
            f"number from 1 to {MAX_SLOTS}, as in a:4"
        )
    return Host(name, int(slots))


def check_ranks(size: int) -> None:
    """Refuse more ranks than a job can have.

    Raises
    ------
    BootstrapError
        If there are too many.
    """
    if size > MOST_RANKS:
        raise BootstrapError(f"{size} ranks: a job can have at most {MOST_RANKS}")


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
    check_ranks(sum(counts.values()))
    everyone = positions_by_host(list(counts.values()))
    return {host: list(islice(everyone, count)) for host, count in counts.items()}


def positions_by_host(counts: Sequence[int]) -> Iterator[RankPosition]:
    """The positions of all ranks, host after host, by the number of ranks of each."""
    everywhere = Counter(local for count in counts for local in range(count))
    earlier: Counter[int] = Counter()  # hosts so far that have this local rank
    ranks, size = count_up(), sum(counts)
    for count in counts:
        for local in range(count):
            cross = earlier[local], everywhere[local]
            yield RankPosition(next(ranks), size, local, count, *cross)
        earlier.update(range(count))


def _counts(hosts: Sequence[Host], size: int | None) -> dict[Host, int]:
    """The number of ranks of each host that has any."""
    (most, times), *_ = Counter(host.name for host in hosts).most_common(1)
    if times > 1:
        raise BootstrapError(f"host {most} is named twice; add its slots up")
    slots = sum(host.slots for host in hosts)
    left = slots if size is None else size
    if left > slots:
        raise BootstrapError(
            f"{left} ranks do not fit into {counted(slots, 'slot')} of "
            f"{counted(len(hosts), 'host')}; give more slots, as in -H a:4,b:4"
        )
    counts: dict[Host, int] = {}
    for host in hosts:
        if count := min(host.slots, left):
            counts[host] = count
        left -= count
    return counts
