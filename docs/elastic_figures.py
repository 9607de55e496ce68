"""The page of the figures of elastic jobs, from ``bench/results/elastic.json``."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from collalgo.base.json_files import read_json
from docs.pages import GENERATED, write_page

RESULTS = Path(__file__).parents[1] / "bench" / "results" / "elastic.json"

HEAD = f"""# Figures of elastic jobs

{GENERATED} from `bench/results/elastic.json`, which this writes, as root:

```sh
python -m collalgo.bench.disturbances --json bench/results/elastic.json --torch PYTHON
```

The times count from the event, until the last process has reached the phase. Several
hosts are network namespaces of one machine with two cores, with a NIC of 25 MB/s each;
an etcd has three members, for partitions one on each host. A member is lost after a
silence of 2 s; a pause lasts 3 s. Less is better.
"""

COLUMNS = (
    "| | store | p50 | p99 | most | trials | aim |",
    "|---|---|---|---|---|---|---|",
)


def page() -> str:
    """The page: a table for each event and place."""
    parts = read_json(RESULTS)["parts"]
    tables = {}
    for part in parts.values():
        for each in part["figures"]:
            title = f"{each['event']} ({each['where']})"
            tables.setdefault(title, []).append(_row(each))
    lines = [HEAD]
    for title, rows in tables.items():
        lines += [f"## {_capital(title)}\n", *COLUMNS, *rows, ""]
    return "\n".join([*lines, *_conditions(parts), ""])


def _row(figure: dict[str, Any]) -> str:
    """A row of a table."""
    unit = figure["unit"]
    known = [name for name in ("p50", "p99", "most") if name in figure]
    shown = {name: _number(figure[name], unit) for name in known}
    found = [shown.get(name, "") for name in ("p50", "p99", "most")]
    cells = [figure["phase"], figure["store"], *found, str(figure["trials"])]
    return f"| {' | '.join([*cells, _aim(figure)])} |"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "not in time"
    return f"{value:.3f}x" if unit == "x" else f"{value:.0f} {unit}"


def _aim(figure: dict[str, Any]) -> str:
    """The aims, and whether they are reached."""
    names = zip(("p50", "p99"), figure["aim"], strict=True)
    aims = [f"{n} {_number(aim, figure['unit'])}" for n, aim in names if aim]
    if not aims:
        return ""
    verdict = {True: "reached", False: "missed", None: "too few trials"}
    return f"{', '.join(aims)}: {verdict[figure['reached']]}"


def _capital(text: str) -> str:
    """A title; etcd and kill keep their names."""
    return text[0].upper() + text[1:]


def _conditions(parts: dict[str, Any]) -> Iterator[str]:
    """The machine, and the load before each part."""
    first = next(iter(parts.values()))["environment"]
    loads = ", ".join(
        f"{name} {part['environment']['load']:.1f}" for name, part in parts.items()
    )
    yield (
        f"_Python {first['python']}, {first['cores']} cores ({first['processor']}). "
        f"The load average before each part: {loads}. Above 0.5, times are too long._"
    )


def write() -> None:
    """Write the page."""
    write_page(Path(__file__).with_name("elastic_figures.md"), page())
