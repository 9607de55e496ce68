"""The page of the races between hosts with fast links, from their results."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from collalgo.base.json_files import read_json
from collalgo.base.units import counted, human, human_time
from docs.pages import GENERATED, write_page

#: The folder of the results, and the names of their files.
RESULTS = Path(__file__).parents[1] / "bench" / "results" / "cluster"
FILES = "fast_*.json"

#: The ratio below which a cell is listed: closer to 1 is the noise of a race.
SLOWER = 0.95

Row = dict[str, Any]

HEAD = f"""# Races between hosts with fast links

{GENERATED} from `bench/results/cluster/fast_*.json`, which these commands
write, as root:

```sh
%s
```

The hosts are network namespaces of one machine with two cores, on one switch; the links
have the rates of the first column. Calls of collalgo and of the peers alternate in the
same processes; collalgo runs over the same MPI as the peer beside it. Each cell is the
time of the best peer divided by that of collalgo, as a geometric mean over the sizes
(above 1, collalgo is faster).
"""


def page() -> str:
    """The page: a table for each file, and the cells in which collalgo is slower."""
    documents = [read_json(path) for path in sorted(RESULTS.glob(FILES))]
    lines = [HEAD % "\n".join(map(_command, documents))]
    for document in documents:
        lines += [f"## {_place(document)}\n", *_table(document["rows"]), ""]
        lines += [_slower(document["rows"]), "", _conditions(document), ""]
    return "\n".join(lines)


def _command(document: Row) -> str:
    command: str = document["command"]
    return command


def _place(document: Row) -> str:
    """The hosts, and the ranks on each."""
    hosts = counted(document["hosts"], "host")
    return f"{hosts} of {counted(document['ranks'], 'rank')}"


def _table(rows: Sequence[Row]) -> Iterator[str]:
    """A row for each rate, and a column for each collective."""
    collectives = list(dict.fromkeys(row["collective"] for row in rows))
    yield f"| links | {' | '.join(collectives)} | all |"
    yield f"|{'---|' * (len(collectives) + 2)}"
    for rate in dict.fromkeys(row["rate"] for row in rows):
        mine = [row for row in rows if row["rate"] == rate]
        parts = [[r for r in mine if r["collective"] == one] for one in collectives]
        cells = [f"{geometric_mean(map(ratio, part)):.2f}" for part in (*parts, mine)]
        yield f"| {_links(rate)} | {' | '.join(cells)} |"


def ratio(row: Row) -> float:
    """The time of the best peer of a cell divided by that of collalgo."""
    best: float = min(row["peers"].values())
    return best / float(row["ours"])


def _slower(rows: Sequence[Row]) -> str:
    """The cells in which collalgo is slower than the best peer."""
    lost = [row for row in rows if ratio(row) < SLOWER]
    if not lost:
        return f"In none of {len(rows)} cells is the ratio below {SLOWER}."
    cells = "; ".join(
        f"{row['collective']} of {human(row['nbytes'])}, {_links(row['rate'])} "
        f"({human_time(row['ours'])}, {ratio(row):.2f})"
        for row in sorted(lost, key=ratio)
    )
    return f"The ratio is below {SLOWER} in {len(lost)} of {len(rows)} cells: {cells}."


def _links(rate: float | None) -> str:
    return "unlimited" if rate is None else f"{rate:g} Gbit/s"


def _conditions(document: Row) -> str:
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
