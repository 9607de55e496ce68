"""Compare the dumps of all ranks to find the rank that diverged first."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from collalgo.comm.call_text import COMPARED
from collalgo.comm.tracing.dumped import (
    MOST_NAMED,
    Dumped,
    DumpError,
    Rank,
    read,
    shown,
)

__all__ = ["DumpError", "Finding", "analyze"]

#: For each process the calls that it waits in, with their communicators.
Waits: TypeAlias = Mapping[str, Sequence[tuple[str, Rank]]]

#: The most waits, and the most threads, of a rank that are shown.
MOST_WAITS = 3


class Finding(NamedTuple):
    """The result of the analysis for one communicator.

    ``culprits`` are the ranks that diverged first; empty if no rank is known to have
    diverged. It is ``inconclusive`` if ranks have no dump.
    """

    communicator: str
    number: int
    time: int
    culprits: tuple[int, ...]
    lines: tuple[str, ...]
    inconclusive: bool = False


def analyze(folder: Path) -> list[Finding]:
    """Analyse the dumps of a folder; the earliest divergence comes first.

    Raises
    ------
    DumpError
        If a file is not a dump, or the folder has no dumps.
    """
    dumped = read(folder)
    elsewhere = _waits(dumped)
    findings = [_finding(name, found, elsewhere) for name, found in dumped.items()]
    return sorted(findings, key=lambda each: (not each.culprits, each.time))


def _waits(dumped: Mapping[str, Dumped]) -> Waits:
    """For each process the calls that it waits in, with their communicators."""
    found = defaultdict(list)
    for name, communicator in dumped.items():
        for rank in communicator.ranks:
            if rank.waits and rank.process:
                found[rank.process].append((name, rank))
    return found


def _finding(name: str, found: Dumped, elsewhere: Waits) -> Finding:
    ranks = found.ranks
    lines = [*_absent(found)]
    number, culprits = _mismatch(ranks)
    awaited = number
    if not culprits:
        awaited, culprits = _behind(ranks)
        number, skipped = _skipped(ranks, culprits, awaited)
        lines += skipped
    if culprits:
        lines += _comparison(ranks, awaited, culprits)
        for rank in (each for each in ranks if each.rank in culprits):
            lines += _whereabouts(rank, elsewhere)
    else:
        number = max((rank.last for rank in ranks), default=0)
        lines += _waiting(found)
        calls = shown(ranks, number)
        lines = lines or [f"all ranks have made the same {calls} calls"]
    times = [call["begun"] for rank in ranks if (call := rank.call(number))]
    time, missing = min(times, default=0), bool(found.missing)
    return Finding(name, shown(ranks, number), time, culprits, tuple(lines), missing)


def _whereabouts(rank: Rank, elsewhere: Waits) -> Iterator[str]:
    """The present lines of a rank that others wait for, from its dump."""
    waits = [each for each in elsewhere.get(rank.process, ()) if each[1] is not rank]
    for name, other in waits[:MOST_WAITS]:
        where = f"rank {rank.rank} waits in communicator {name}, as rank {other.rank}"
        yield f"{where}: {other.described(other.last)}"
    if not rank.waits:
        for lines in rank.lines[:MOST_WAITS]:
            yield f"rank {rank.rank} is now at {lines}"


def _absent(found: Dumped) -> Iterator[str]:
    """The ranks without a dump."""
    absent = found.absent
    yield from (f"rank {rank} has no dump" for rank in absent[:MOST_NAMED])
    if found.missing > MOST_NAMED:
        yield f"{found.missing} of {found.size} ranks have no dump"


def _waiting(found: Dumped) -> Iterator[str]:
    """The ranks that wait in a call, all in the same."""
    for rank in found.ranks:
        if rank.waits:
            yield f"rank {rank.rank}: {rank.described(rank.last, found.absent)}"


def _mismatch(ranks: Sequence[Rank]) -> tuple[int, tuple[int, ...]]:
    """The first call that differs between ranks, and the ranks in the minority."""
    numbers = sorted({r["sequence"] for rank in ranks for r in rank.records})
    for number in numbers:
        calls = {
            rank.rank: tuple(call[key] for key in COMPARED)
            for rank in ranks
            if (call := rank.call(number))
        }
        if len(set(calls.values())) > 1:
            usual = Counter(calls.values()).most_common(1)[0][0]
            return number, tuple(r for r, call in calls.items() if call != usual)
    return 0, ()


def _behind(ranks: Sequence[Rank]) -> tuple[int, tuple[int, ...]]:
    """The first call in which ranks wait for others, and the ranks that are missing."""
    last = max((rank.last for rank in ranks), default=0)
    fewest = min((rank.last for rank in ranks), default=0)
    waiting = any(rank.waits for rank in ranks if rank.last > fewest)
    if fewest == last or not waiting:
        return 0, ()
    return fewest + 1, tuple(rank.rank for rank in ranks if rank.last == fewest)


def _skipped(
    ranks: Sequence[Rank], culprits: tuple[int, ...], awaited: int
) -> tuple[int, list[str]]:
    """The call that the ranks behind have skipped, according to their lines.

    Returns
    -------
    int
        The number of the call, or that of the call that the others wait in.
    list of str
        The sentences of the analysis.
    """
    if not culprits:
        return awaited, []
    first = next(rank for rank in ranks if rank.rank in culprits)
    other = next(rank for rank in ranks if rank.last >= awaited)
    found = _places_of_skip(first, other, awaited)
    if not found:
        return awaited, _first_other_line(first, other, awaited)
    if len(found) == 1:
        return found[0], _one_skip(first, other, found[0], awaited)
    name = f"rank {first.rank}"
    ends = [shown([other], n) for n in (found[0], min(found[-1], awaited - 1))]
    calls = f"one of the calls #{ends[0]} to #{ends[1]}"
    cannot = "all are made by the same lines, so dumps do not show which"
    if awaited in found:
        return awaited, [f"{name} may instead have skipped {calls}: {cannot}"]
    return found[0], [f"{name} has skipped {calls}: {cannot}"]


def _one_skip(behind: Rank, other: Rank, number: int, awaited: int) -> list[str]:
    """The only call that a rank can have skipped, unless it is the awaited one."""
    if number == awaited:
        return []
    call = other.call(number)
    where = f" at {call['place']}" if call and call["place"] else ""
    skipped = f"call #{shown([other], number)}{where}"
    text = f"rank {behind.rank} has skipped {skipped}: from there on its "
    return [f"{text}lines are those of the next calls of the others"]


def _first_other_line(behind: Rank, other: Rank, awaited: int) -> list[str]:
    """The first call that two ranks have made in other lines, in words."""
    for number in range(max(behind.first, other.first), awaited):
        mine, its = behind.call(number), other.call(number)
        if mine and its and mine["place"] != its["place"]:
            places = f"{mine['place']}, rank {other.rank} at {its['place']}"
            return [f"rank {behind.rank} made call #{mine['number']} at {places}"]
    return []


def _places_of_skip(behind: Rank, other: Rank, awaited: int) -> list[int]:
    """The calls that a rank may have skipped, so that its lines fit the other's.

    Up to the skipped call the lines are equal; from there on, its call has the line of
    the other's next one.
    """
    first = max(behind.first, other.first)

    def line(rank: Rank, number: int) -> object:
        call = rank.call(number)
        return None if call is None else (call["place"], *(call[k] for k in COMPARED))

    numbers = range(first, awaited)
    equal = [line(behind, n) == line(other, n) for n in numbers]
    shifted = [line(behind, n) == line(other, n + 1) for n in numbers]
    least = awaited
    while least > first and shifted[least - 1 - first]:
        least -= 1
    most = first
    while most < awaited and equal[most - first]:
        most += 1
    return list(range(least, most + 1))


def _comparison(
    ranks: Sequence[Rank], number: int, culprits: tuple[int, ...]
) -> Iterator[str]:
    """A line for each rank: its call, against that of the others."""
    for rank in ranks:
        if rank.rank not in culprits:
            yield f"rank {rank.rank}: {rank.described(number, culprits)}"
        elif rank.last < number:
            yield (
                f"rank {rank.rank} has not made call #{shown(ranks, number)}; its last "
                f"was {rank.described(rank.last)}"
            )
        else:
            yield f"rank {rank.rank} instead: {rank.described(number)}"
