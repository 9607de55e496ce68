"""The page of the races between hosts with fast links, from their results."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap
from typing import Any, NamedTuple

from collalgo.base.json_files import read_json
from collalgo.base.units import counted, human
from docs.pages import GENERATED, write_page

#: The folder of the results, and the names of their files.
RESULTS = Path(__file__).parents[1] / "bench" / "results" / "cluster"
FILES = "fast_*.json"

#: What else is known of results, by their hosts, ranks on each, and commit.
NOTES = {
    (2, 1, "dbacb426"): """\
The geometric mean of all cells is {means}. This is the third race of a day. The two
before, on partly other code and under another load, had 1.024 and 1.084 over MPICH,
0.965 and 0.983 over Open MPI; their files are not kept.""",
    (4, 1, "9f13e924"): """\
The geometric mean of all cells is {means}. This race is of an earlier version than the
others, before four parts of a long message were under way at once.""",
}

#: The ratio below which a cell is listed: closer to 1 is the noise of a race.
SLOWER = 0.95


class Cell(NamedTuple):
    """A call at a rate, beside a peer."""

    rate: float | None
    peer: str
    collective: str
    nbytes: int


class Ratio(NamedTuple):
    """The time of a peer in a cell, divided by that of collalgo."""

    cell: Cell
    ratio: float


HEAD = f"""# Races between hosts with fast links

{GENERATED} from `bench/results/cluster/fast_*.json`, which these commands
write, as root:

```sh
%s
```

The hosts are network namespaces of one machine with two cores, on one switch; the links
have the rates of the first column. Calls of collalgo and of the peers alternate in the
same processes; collalgo runs over the same MPI as the peer beside it. Each cell is the
time of the peer divided by that of collalgo, as a geometric mean over the sizes and the
races (above 1, collalgo is faster). These races ran beside other programs, at a higher
priority than these. Loads are averages of the minute before each rate.

Reasons of slower cells: messages of up to 64 KiB are copied into packets, which carry
the record of the call, and out of them; longer ones are announced by a packet, which
takes 4 to 8 us. At 1 Gbit/s the emulated links let a burst of 1 MB pass, so medians of
64 KiB to 1 MiB depend on what earlier calls have left of it. With more ranks than the
two cores of this machine, times vary by a factor of two. Not understood are the slowest
cells: broadcasts of 64 KiB and 1 MiB on four hosts, calls of 16 MiB over Open MPI, and
alltoalls of up to 4 KiB.
"""


def page() -> str:
    """The page: for each shape of hosts a table, and the cells that are slower."""
    documents = [read_json(path) for path in sorted(RESULTS.glob(FILES))]
    lines = [HEAD % "\n".join(document["command"] for document in documents)]
    for place in dict.fromkeys(map(_place, documents)):
        races = [document for document in documents if _place(document) == place]
        rows = [ratio for race in races for ratio in ratios(race)]
        lines += [f"## {place}, {counted(len(races), 'race')}\n", *_table(rows), ""]
        lines += [_slower(rows, len(races)), ""]
        lines += [line for race in races for line in _note(race)]
        lines += [_conditions(races[0]), "", *map(_version, races), ""]
    return "\n".join(lines)


def _place(document: dict[str, Any]) -> str:
    """The hosts, and the ranks on each."""
    hosts = counted(document["hosts"], "host")
    return f"{hosts} of {counted(document['ranks'], 'rank')}"


def ratios(document: dict[str, Any]) -> Iterator[Ratio]:
    """The times of the peers divided by those of collalgo, in each cell of a race."""
    for row in document["rows"]:
        for peer, seconds in row["peers"].items():
            cell = Cell(row["rate"], peer, row["collective"], row["nbytes"])
            yield Ratio(cell, seconds / row["ours"])


def _table(rows: Sequence[Ratio]) -> Iterator[str]:
    """A row for each rate and peer, and a column for each collective."""
    collectives = list(dict.fromkeys(one.cell.collective for one in rows))
    yield f"| links | peer | {' | '.join(collectives)} | all |"
    yield f"|{'---|' * (len(collectives) + 3)}"
    for rate, peer in dict.fromkeys(one.cell[:2] for one in rows):
        mine = [one for one in rows if one.cell[:2] == (rate, peer)]
        parts = [[r for r in mine if r.cell.collective == one] for one in collectives]
        means = [geometric_mean(r.ratio for r in part) for part in (*parts, mine)]
        cells = " | ".join(f"{mean:.2f}" for mean in means)
        yield f"| {_links(rate)} | {peer} | {cells} |"


def _slower(rows: Sequence[Ratio], races: int) -> str:
    """The cells in which collalgo is slower than a peer in all races."""
    found: dict[Cell, list[float]] = {}
    for one in rows:
        found.setdefault(one.cell, []).append(one.ratio)
    lost = {cell: max(each) for cell, each in found.items() if max(each) < SLOWER}
    of = f"of {len(found)} cells in {'all races' if races > 1 else 'the race'}"
    if not lost:
        return f"The ratio is below {SLOWER} in none {of}."
    cells = "; ".join(
        f"{cell.collective} of {human(cell.nbytes)} over {cell.peer}, "
        f"{_links(cell.rate)} ({most:.2f})"
        for cell, most in sorted(lost.items(), key=lambda each: each[1])
    )
    return f"The ratio is below {SLOWER} in {len(lost)} {of}: {cells}."


def _links(rate: float | None) -> str:
    return "unlimited" if rate is None else f"{rate:g} Gbit/s"


def _note(document: dict[str, Any]) -> Iterator[str]:
    """What else is known of a race, with the mean of its cells; often nothing."""
    commit = document["environment"]["commit"][:8]
    note = NOTES.get((document["hosts"], document["ranks"], commit))
    if note is None:
        return
    rows, means = [*ratios(document)], []
    for peer in dict.fromkeys(one.cell.peer for one in rows):
        mean = geometric_mean(one.ratio for one in rows if one.cell.peer == peer)
        means.append(f"{mean:.3f} over {peer}")
    yield from wrap(note.format(means=", ".join(means)), 88)
    yield ""


def _version(document: dict[str, Any]) -> str:
    """The commit of a race, and the load."""
    commit = document["environment"]["commit"][:8]
    loads = ", ".join(f"{load:.0f}" for load in document.get("loads", ()))
    return f"_Commit {commit}; load {loads or 'not kept'}._"


def _conditions(document: dict[str, Any]) -> str:
    """The machine and the peers."""
    found = document["environment"]
    peers = dict.fromkeys(name for row in document["rows"] for name in row["peers"])
    return (
        f"_Peers: {', '.join(peers)}. Python {found['python']}, "
        f"{counted(found['cores'], 'core')} ({found['processor']})._"
    )


def write() -> None:
    """Write the page."""
    write_page(Path(__file__).with_name("fast_links.md"), page())
