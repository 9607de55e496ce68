"""The page of the races between hosts with fast links, from their results."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import inf
from pathlib import Path
from statistics import geometric_mean
from typing import Any, NamedTuple

from collalgo.base.json_files import read_json
from collalgo.base.units import counted, human
from docs.pages import GENERATED, write_page

#: The folder of the results, and the names of their files.
RESULTS = Path(__file__).parents[1] / "bench" / "results" / "cluster"
FILES = "fast_*.json"

#: The ratio below which a cell counts as slower: closer to 1 is the noise of a race.
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
same processes; collalgo runs over the same MPI as the peer beside it, unless a heading
names another engine. Each cell of a table is a geometric mean of the time of the peer
divided by that of collalgo (above 1, collalgo is faster). Loads are averages of the
minute before each rate, most of it by the race itself.

With a core for each rank, collalgo takes as long as the MPI beneath or a little less.
The slowest cells are messages of up to 64 KiB over Open MPI, and of 64 KiB to 1 MiB
over MPICH: short messages are copied into packets, which carry the record of the call,
and out of them; longer ones are announced by a packet, which takes 4 to 8 us.

Four ranks share the two cores of this machine. There the times depend on the work of
all processors for all messages, which hosts of a cluster do on processors of their own:
each message takes some 18 us of them, so fewer messages are chosen here.

UCC is not raced: PyPI, Debian 12 and the wheels of Open MPI and torch lack it.
"""


def page() -> str:
    """The page: for each shape of hosts the means by rate and by size."""
    documents = [read_json(path) for path in sorted(RESULTS.glob(FILES))]
    lines = [HEAD % "\n".join(document["command"] for document in documents)]
    for place in dict.fromkeys(map(_place, documents)):
        races = [document for document in documents if _place(document) == place]
        rows = [ratio for race in races for ratio in ratios(race)]
        lines += [f"## {place}, {counted(len(races), 'race')}\n", _means(rows), ""]
        lines += ["By the rate of the links, as a mean over the sizes:\n"]
        lines += [*_table(rows, BY_RATE), ""]
        lines += [
            "By the size, as a mean over the rates:\n",
            *_table(rows, BY_SIZE),
            "",
        ]
        lines += [_conditions(races[0]), "", *map(_version, races), ""]
    return "\n".join(lines)


def _place(document: dict[str, Any]) -> str:
    """The hosts, the ranks on each, and the engine of collalgo if it is not MPI."""
    hosts = counted(document["hosts"], "host")
    engine = " over UCX" * (document.get("engine") == "ucx")
    return f"{hosts} of {counted(document['ranks'], 'rank')}{engine}"


def ratios(document: dict[str, Any]) -> Iterator[Ratio]:
    """The times of the peers divided by those of collalgo, in each cell of a race."""
    for row in document["rows"]:
        for peer, seconds in row["peers"].items():
            cell = Cell(row["rate"], peer, row["collective"], row["nbytes"])
            yield Ratio(cell, seconds / row["ours"])


def _means(rows: Sequence[Ratio]) -> str:
    """The means over all cells, and how many cells are slower."""
    peers = dict.fromkeys(one.cell.peer for one in rows)
    means = [
        f"{_mean(r for r in rows if r.cell.peer == peer)} over {peer}" for peer in peers
    ]
    cells = dict.fromkeys(one.cell for one in rows)
    best = [max(r.ratio for r in rows if r.cell == cell) for cell in cells]
    slower = sum(ratio < SLOWER for ratio in best)
    return (
        f"Means over all cells: {', '.join(means)}. Below {SLOWER} in each race: "
        f"{slower} of {len(cells)} cells, the lowest {min(best):.2f}."
    )


def _mean(rows: Iterable[Ratio]) -> str:
    """The geometric mean of ratios; empty without ratios."""
    ratios = [row.ratio for row in rows]
    return f"{geometric_mean(ratios):.2f}" if ratios else ""


class Rows(NamedTuple):
    """What the rows of a table are beside the peers: a name, a key and its words."""

    name: str
    key: Callable[[Cell], Any]
    words: Callable[[Any], str]


def _table(rows: Sequence[Ratio], by: Rows) -> Iterator[str]:
    """A row for each rate or size and peer, and a column for each collective."""
    collectives = list(dict.fromkeys(one.cell.collective for one in rows))
    yield f"| {by.name} | peer | {' | '.join(collectives)} | all |"
    yield f"|{'---|' * (len(collectives) + 3)}"
    keys = dict.fromkeys((by.key(r.cell), r.cell.peer) for r in rows)
    for key, peer in sorted(keys, key=lambda one: inf if one[0] is None else one[0]):
        mine = [r for r in rows if (by.key(r.cell), r.cell.peer) == (key, peer)]
        parts = [[r for r in mine if r.cell.collective == one] for one in collectives]
        cells = " | ".join(map(_mean, (*parts, mine)))
        yield f"| {by.words(key)} | {peer} | {cells} |"


def _links(rate: float | None) -> str:
    return "unlimited" if rate is None else f"{rate:g} Gbit/s"


BY_RATE = Rows("links", lambda cell: cell.rate, _links)
BY_SIZE = Rows("size", lambda cell: cell.nbytes, human)


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
