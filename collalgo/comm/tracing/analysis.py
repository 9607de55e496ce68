"""Compare the dumps of all ranks to find the rank that diverged first."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.comm.call_text import COMPARED, call_text

Record = dict[str, Any]

#: The most bytes of a dump.
LARGEST = 64 << 20


class DumpError(ValueError):
    """A file is not a dump, or a folder has no dumps."""


class Rank(NamedTuple):
    """The calls of a rank on a communicator, up to ``time`` in nanoseconds."""

    rank: int
    time: int
    records: Sequence[Record]

    @property
    def last(self) -> int:
        return self.records[-1]["number"] if self.records else 0

    def call(self, number: int) -> Record | None:
        """The call with a number, if the rank made it and its record is kept."""
        first = self.last - len(self.records) + 1
        return self.records[number - first] if first <= number <= self.last else None

    def described(self, number: int) -> str:
        """The call with a number, in words."""
        record = self.call(number)
        if record is None:
            return "nothing" if number > self.last else f"call #{number}, forgotten"
        what = (record[key] for key in ("count", "dtype", "op", "algorithm"))
        words = call_text(record["collective"], number, *what)
        where = f" at {record['place']}" if record["place"] else ""
        return f"{words}{where}, {self._state(record)}"

    def _state(self, record: Record) -> str:
        if record["ended"] is not None:
            return f"{record['state']} {self._ago(record['ended'])} before the dump"
        state = f"{record['state']} for {self._ago(record['begun'])}"
        if record.get("peers"):
            ranks = ", ".join(map(str, record["peers"]))
            state += f", in step {record['step']}, waiting for rank {ranks}"
        return state

    def _ago(self, time: int) -> str:
        return f"{max(0, self.time - time) / 1e9:.3f} s"


class Finding(NamedTuple):
    """The result of the analysis for one communicator.

    ``culprits`` are the ranks that diverged first; empty if no rank diverged.
    """

    communicator: str
    number: int
    time: int
    culprits: tuple[int, ...]
    lines: tuple[str, ...]


def read(folder: Path) -> dict[str, tuple[int, list[Rank]]]:
    """The size and the ranks of each communicator in the dumps of a folder.

    Raises
    ------
    DumpError
        If a file is not a dump, or the folder has no dumps.
    """
    found: dict[str, tuple[int, list[Rank]]] = {}
    paths = sorted(folder.glob("rank*.json"))
    if not paths:
        raise DumpError(f"{folder} has no dumps (rank*.json)")
    for path in paths:
        try:
            for name, size, rank in _ranks(path):
                found.setdefault(name, (size, []))[1].append(rank)
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DumpError(f"{path} is no dump of collalgo ({error})") from None
    return {
        name: (size, sorted(ranks, key=lambda rank: rank.rank))
        for name, (size, ranks) in found.items()
    }


def _ranks(path: Path) -> Iterator[tuple[str, int, Rank]]:
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it has more than {LARGEST} bytes")
    document = json.loads(path.read_text())
    if document["format"] != "collalgo dump 1":
        raise ValueError(f"its format is {document['format']!r}")
    for part in document["communicators"]:
        records = [
            {**record, "number": int(record["number"]), "begun": int(record["begun"])}
            for record in part["records"]
        ]
        rank = Rank(int(part["rank"]), int(document["time"]), records)
        yield str(part["name"]), int(part["size"]), rank


def analyze(folder: Path) -> list[Finding]:
    """Analyse the dumps of a folder; the earliest divergence comes first."""
    findings = [_finding(name, *found) for name, found in read(folder).items()]
    return sorted(findings, key=lambda each: (not each.culprits, each.time))


def _finding(name: str, size: int, ranks: list[Rank]) -> Finding:
    absent = sorted(set(range(size)) - {rank.rank for rank in ranks})
    lines = [f"rank {rank} has left no dump" for rank in absent]
    number, culprits = _mismatch(ranks)
    if not culprits:
        number, culprits = _behind(ranks)
    if culprits:
        lines += _comparison(ranks, number, culprits)
    else:
        under_way = [rank for rank in ranks if _open_call(rank)]
        number = max((rank.last for rank in ranks), default=0)
        culprits = tuple(absent) if under_way else ()
        lines += [f"rank {r.rank}: {r.described(r.last)}" for r in under_way]
        if not lines:
            lines = [f"all ranks have made the same {number} calls"]
    times = [call["begun"] for rank in ranks if (call := rank.call(number))]
    return Finding(name, number, min(times, default=0), culprits, tuple(lines))


def _open_call(rank: Rank) -> bool:
    return bool(rank.records) and rank.records[-1]["state"] != "done"


def _mismatch(ranks: list[Rank]) -> tuple[int, tuple[int, ...]]:
    """The first call that differs between ranks, and the ranks in the minority."""
    numbers = sorted({r["number"] for rank in ranks for r in rank.records})
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


def _behind(ranks: list[Rank]) -> tuple[int, tuple[int, ...]]:
    """The first call in which ranks wait for others, and the ranks that are missing."""
    last = max((rank.last for rank in ranks), default=0)
    fewest = min((rank.last for rank in ranks), default=0)
    waiting = any(_open_call(rank) for rank in ranks if rank.last > fewest)
    if fewest == last or not waiting:
        return 0, ()
    return fewest + 1, tuple(rank.rank for rank in ranks if rank.last == fewest)


def _comparison(
    ranks: list[Rank], number: int, culprits: tuple[int, ...]
) -> Iterator[str]:
    """A line for each rank: its call, against that of the others."""
    for rank in ranks:
        if rank.rank not in culprits:
            yield f"rank {rank.rank}: {rank.described(number)}"
        elif rank.call(number):
            yield f"rank {rank.rank} instead: {rank.described(number)}"
        else:
            yield (
                f"rank {rank.rank} has not made call #{number}; its last was "
                f"{rank.described(rank.last)}"
            )
