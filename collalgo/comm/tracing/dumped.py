"""Dumps of ranks, read back: their calls, checked, since files may be damaged."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.base.json_files import read_json
from collalgo.comm.call_text import call_text
from collalgo.comm.tracing.dump import DUMP_FILES, VERSION

Record = dict[str, Any]

#: Limits of the numbers in a dump: ranks, and calls, steps and nanoseconds.
MOST_RANKS, MOST = 1 << 24, 1 << 62

#: What a record has, by kind; ``None`` is allowed for the second ones.
TEXTS, TEXTS_OR_NONE = ("state", "collective", "dtype", "algorithm"), ("op", "place")
NUMBERS = ("sequence", "number", "begun", "count", "root")
NUMBERS_OR_NONE = ("ended", "step")


class DumpError(ValueError):
    """A file is not a dump, or a folder has no dumps."""


class Rank(NamedTuple):
    """The calls of a rank on a communicator, up to ``time`` in nanoseconds.

    Calls of ranks with one sequence number belong together; users see the number, which
    leaves out those of the library. ``process`` is its process, and ``lines`` are the
    present ones of users in the threads of that; both are empty if several ranks are
    threads of a process.
    """

    rank: int
    time: int
    records: Sequence[Record]
    process: str = ""
    lines: tuple[str, ...] = ()

    @property
    def first(self) -> int:
        """The sequence number of the first call that is kept."""
        return self.last - len(self.records) + 1

    @property
    def last(self) -> int:
        return self.records[-1]["sequence"] if self.records else 0

    @property
    def waits(self) -> bool:
        """Whether its last call is not done."""
        return bool(self.records) and self.records[-1]["state"] != "done"

    def call(self, sequence: int) -> Record | None:
        """The call of a sequence number, if the rank made it and its record is kept."""
        within = self.first <= sequence <= self.last
        return self.records[sequence - self.first] if within else None

    def described(self, sequence: int, absent: Sequence[int] = ()) -> str:
        """The call of a sequence number; ``absent`` ranks have not made it."""
        record = self.call(sequence)
        if record is None:
            return "nothing" if sequence > self.last else "a call that is forgotten"
        what = (record[key] for key in ("count", "dtype", "op", "algorithm"))
        words = call_text(record["collective"], record["number"], *what)
        where = f" at {record['place']}" if record["place"] else ""
        return f"{words}{where}, {self._state(record, absent)}"

    def _state(self, record: Record, absent: Sequence[int]) -> str:
        if record["ended"] is not None:
            return f"{record['state']} {self._ago(record['ended'])} before the dump"
        state = f"{record['state']} for {self._ago(record['begun'])}"
        peers = record.get("peers") or []
        if awaited := [peer for peer in peers if peer in absent] or peers:
            ranks = ", ".join(map(str, awaited))
            state += f", in step {record['step']}, waiting for rank {ranks}"
        return state

    def _ago(self, time: int) -> str:
        return f"{max(0, self.time - time) / 1e9:.3f} s"


def shown(ranks: Sequence[Rank], sequence: int) -> int:
    """The number that users see of a call, which one of the ranks has made."""
    made = (call for rank in ranks if (call := rank.call(sequence)))
    return int(next(made, {"number": sequence})["number"])


class Dumped(NamedTuple):
    """A communicator: its size, and the ranks that have left a dump, in order."""

    size: int
    ranks: Sequence[Rank]

    @property
    def absent(self) -> list[int]:
        """Some ranks without a dump, of which there may be too many to list."""
        present = {rank.rank for rank in self.ranks}
        first = range(min(self.size, len(present) + MOST_NAMED))
        return [rank for rank in first if rank not in present]

    @property
    def missing(self) -> int:
        """The number of ranks without a dump."""
        return self.size - len(self.ranks)


#: The most lines of the stack of a thread that are shown.
MOST_LINES = 4

#: The most ranks without a dump that are named.
MOST_NAMED = 64


def read(folder: Path) -> dict[str, Dumped]:
    """The communicators in the dumps of a folder, by name.

    Of several dumps of a rank the latest counts.

    Raises
    ------
    DumpError
        If a file is not a dump, or the folder has no dumps.
    """
    paths = sorted(folder.glob(DUMP_FILES))
    if not paths:
        raise DumpError(f"{folder} has no dumps ({DUMP_FILES})")
    sizes: dict[str, int] = {}
    found: dict[str, dict[int, Rank]] = {}
    for path in paths:
        try:
            for name, size, rank in _ranks(read_json(path)):
                if sizes.setdefault(name, size) != size:
                    raise _wrong(f"communicator {name!r:.60}", "size", size)
                ranks = found.setdefault(name, {})
                ranks[rank.rank] = max(
                    rank, ranks.get(rank.rank, rank), key=lambda r: r.time
                )
        except ValueError as error:
            raise DumpError(f"{path} is not a dump of collalgo ({error})") from None
    return {
        name: Dumped(sizes[name], [ranks[rank] for rank in sorted(ranks)])
        for name, ranks in found.items()
    }


def _ranks(document: Any) -> Iterator[tuple[str, int, Rank]]:
    """The communicators of a dump: name, size and the rank that has written it."""
    fields = _dict(document, "the file")
    if fields.get("format") != VERSION:
        raise ValueError(f"its format is {fields.get('format')!r:.40}, not {VERSION!r}")
    time = _integer(fields, "time", "the file")
    process = f"{fields.get('host')!s:.60} {fields.get('process')!s:.20}"
    lines = tuple(_present_lines(fields))
    parts = _list(fields, "communicators", "the file")
    names = [str(_dict(part, "a communicator").get("name")) for part in parts]
    if len({*names}) < len(names):
        process, lines = "", ()
    for part in parts:
        name = _text(part, "name", "a communicator")
        where = f"communicator {name[:60]!r}"
        size = _integer(part, "size", where, 1, MOST_RANKS)
        rank = _integer(part, "rank", where, 0, size - 1)
        records = [_record(each, where) for each in _list(part, "records", where)]
        for before, after in pairwise(records):
            if after["sequence"] != before["sequence"] + 1:
                raise _wrong(where, "sequence", after["sequence"])
        yield name, size, Rank(rank, time, records, process, lines)


def _present_lines(fields: dict[str, Any]) -> Iterator[str]:
    """For each thread of a process, its present lines of users, the innermost first."""
    for name, lines in _dict(fields.get("threads", {}), "threads").items():
        if not isinstance(lines, list) or not all(isinstance(n, str) for n in lines):
            raise _wrong("threads", f"{name:.30}", lines)
        yield ", called by ".join(lines[:MOST_LINES])


def _record(given: Any, where: str) -> Record:
    """A record, checked."""
    record = _dict(given, f"a record of {where}")
    where = f"{where}, record {record.get('sequence')!r:.30}"
    for name in NUMBERS:
        _integer(record, name, where)
    for name in TEXTS:
        _text(record, name, where)
    known = {name: record.get(name) for name in (*TEXTS_OR_NONE, *NUMBERS_OR_NONE)}
    for name in TEXTS_OR_NONE:
        if known[name] is not None:
            _text(record, name, where)
    for name in NUMBERS_OR_NONE:
        if known[name] is not None:
            _integer(record, name, where)
    peers = record.get("peers") or []
    if not isinstance(peers, list) or not all(map(_is_rank, peers)):
        raise _wrong(where, "peers", peers)
    return {**record, **known, "peers": peers}


def _is_rank(value: Any) -> bool:
    return type(value) is int and 0 <= value < MOST_RANKS


def _wrong(where: str, name: str, value: Any) -> ValueError:
    return ValueError(f"{where}: {name} is {value!r:.40}")


def _dict(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is {value!r:.40}")  # noqa: TRY004
    return value


def _list(fields: dict[str, Any], name: str, where: str) -> list[Any]:
    value = fields.get(name)
    if not isinstance(value, list):
        raise _wrong(where, name, value)
    return value


def _text(fields: dict[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _wrong(where, name, value)
    return value


def _integer(
    fields: dict[str, Any], name: str, where: str, least: int = -MOST, most: int = MOST
) -> int:
    value = fields.get(name)
    if type(value) is not int or not least <= value <= most:
        raise _wrong(where, name, value)
    return value
