"""The page of the figures of elastic jobs, from ``bench/results/elastic.json``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collalgo.base.json_files import read_json
from docs.pages import GENERATED, write_page

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "elastic.json"

#: The load average up to which a machine does nothing else.
QUIET = 0.5

HEAD = f"""# Figures of elastic jobs

{GENERATED} from `bench/results/elastic.json`, which this writes, as root:

```sh
%s
```

The times count from the event, until the last process has reached the phase. Several
hosts are network namespaces of one machine with two cores, with a NIC of 25 MB/s each;
an etcd has three members, for partitions one on each host. A member is lost after a
silence of 2 s. Less is better. p50 is the median, of at least 5
trials; p99 needs 20.
"""

COLUMNS = (
    "| | store | p50 | p99 | most | trials | aim | load |",
    "|---|---|---|---|---|---|---|---|",
)


def page() -> str:
    """The page: a table for each event and place."""
    parts = read_json(RESULTS)["parts"]
    tables: dict[str, list[str]] = {}
    for part in parts.values():
        for each in part["figures"]:
            title = f"{each['event']} ({each['where']})"
            load = each.get("load", part["environment"]["load"])
            tables.setdefault(title, []).append(_row(each, load))
    lines = [HEAD % "\n".join(_commands(parts))]
    for title, rows in tables.items():
        lines += [f"## {title[0].upper()}{title[1:]}\n", *COLUMNS, *rows, ""]
    return "\n".join([*lines, _conditions(parts), ""])


def _commands(parts: dict[str, Any]) -> Iterator[str]:
    """The command for the parts of each number of trials."""
    named: dict[str, list[str]] = {}
    for name, part in parts.items():
        trials = max(each["trials"] for each in part["figures"])
        is_contest = name == "contest"
        option = "--torch PYTHON --contest-trials" if is_contest else "--trials"
        named.setdefault(f"{option} {trials}", []).append(name)
    for options, names in named.items():
        yield f"python -m collalgo.bench.disturbances {' '.join(names)} \\"
        yield f"    {options} --json {RESULTS.relative_to(RESULTS.parents[2])}"


def _row(figure: dict[str, Any], load: float) -> str:
    """A row of a table."""
    unit = figure["unit"]
    known = [name for name in ("p50", "p99", "most") if name in figure]
    shown = {name: _number(figure[name], unit) for name in known}
    found = [shown.get(name, "") for name in ("p50", "p99", "most")]
    cells = [figure["phase"], figure["store"], *found, str(figure["trials"])]
    return f"| {' | '.join([*cells, _aim(figure, load), f'{load:.1f}'])} |"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "not in time"
    return f"{value:.3f}x" if unit == "x" else f"{value:.0f} {unit}"


def _aim(figure: dict[str, Any], load: float) -> str:
    """The aims, and whether they are reached."""
    names = zip(("p50", "p99"), figure["aim"], strict=True)
    aims = [f"{n} {_number(aim, figure['unit'])}" for n, aim in names if aim]
    return f"{', '.join(aims)}: {_verdict(figure, load)}" if aims else ""


def _verdict(figure: dict[str, Any], load: float) -> str:
    """Whether the aims are reached, where trials and load can tell."""
    if figure["reached"] is None:
        return "too few trials"
    is_time_reached = figure["reached"] and figure["unit"] != "x"
    if load > QUIET and not is_time_reached:  # load makes times longer, not shorter
        return "open"
    return "reached" if figure["reached"] else "missed"


def _conditions(parts: dict[str, Any]) -> str:
    """The machine, and what its load means for the aims."""
    first = next(iter(parts.values()))["environment"]
    return (
        f"_Python {first['python']}, {first['cores']} cores ({first['processor']}). "
        "The load is the average of the minute before each part; the part before "
        f"counts in it. Above {QUIET} times may be too long: an aim is then open "
        "unless a time reaches it in spite of that._"
    )


def write() -> None:
    """Write the page."""
    write_page(Path(__file__).with_name("elastic_figures.md"), page())
