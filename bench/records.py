"""Records: the rows of results, with their files."""

import csv
import io
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from collalgo.bench.cells import Cell, dtype_of

import collalgo
from collalgo.base import output_files
from collalgo.base.json_files import read_json
from collalgo.bootstrap.identity import identity
from collalgo.cli.options import write_or_refuse
from collalgo.engine.transport.waiting import cores

VERSION = 1


#: The reason of an algorithm that was measured as asked, and that of one which also is
#: the selected one.
AS_ASKED, ALSO_CHOSEN = "as asked", "as asked; select chooses it, too"


class Record(NamedTuple):
    """One cell of one contestant; times in seconds, sizes in bytes.

    The independent variables come first, then the results. ``runs`` holds the median of
    each cycle, which :mod:`collalgo.bench.compare` compares. The floor is the limit of
    the machine, or None if a call was faster; see
    :class:`collalgo.bench.limits.Floor`. Times are of one call; ``in_a_row`` calls were
    timed together. What is ``predicted`` is ``rough`` where ranks share cores.
    ``new_size`` is the median time of calls of sizes near this one, each never made
    before, if it was measured.
    """

    contestant: str
    collective: str
    ranks: int
    size: int
    count: int  # type: ignore[assignment]  # tuples have a method of that name
    dtype: str
    op: str
    root: int
    place: str
    algorithm: str
    iterations: int
    p50: float
    p95: float
    p99: float
    minimum: float
    maximum: float
    algbw: float
    busbw: float
    predicted: float | None
    sent: float | None
    wrong: int | None
    reason: str
    runs: tuple[float, ...]
    floor: float | None = None
    in_a_row: int = 1
    rough: bool = False
    new_size: float | None = None


#: The columns without a default, and those of each kind; others are positive numbers.
REQUIRED = tuple(x for x in Record._fields if x not in Record._field_defaults)
TEXTS = ("contestant", "collective", "dtype", "op", "place", "algorithm", "reason")
INTEGERS = ("ranks", "size", "count", "root", "iterations", "in_a_row")
OPTIONAL = (
    *("predicted", "sent", "wrong", "floor", "algbw", "busbw", "new_size", "p10"),
)

#: The columns that identify a cell.
INDEPENDENT = Record._fields[:9]


def record(
    cell: Cell,
    ranks: int,
    seconds: Sequence[np.ndarray],
    *,
    contestant: str = "collalgo",
    algorithm: str = "",
    predicted: float | None = None,
    sent: float | None = None,
    wrong: int | None = None,
    reason: str = "",
    floor: float | None = None,
    in_a_row: int = 1,
    rough: bool = False,
    new_size: float | None = None,
) -> Record:
    """The row of a cell whose iterations took ``seconds``, an array for each cycle."""
    _, count = cell.counts(ranks)
    nbytes = count * dtype_of(cell.dtype).itemsize
    times = np.concatenate(seconds)
    if floor is not None and floor > times.min():
        floor = None  # measured while the machine did something else, it is not a limit
    p50, p95, p99 = (float(x) for x in np.percentile(times, [50, 95, 99]))
    # Long: one line for each column.
    return Record(
        contestant,
        cell.collective,
        ranks,
        nbytes,
        count,
        cell.dtype,
        cell.op or "",
        cell.root,
        cell.place,
        algorithm,
        len(times),
        p50,
        p95,
        p99,
        float(times.min()),
        float(times.max()),
        nbytes / p50,
        cell.busbw_factor(ranks) * nbytes / p50,
        predicted,
        sent,
        wrong,
        reason,
        tuple(float(np.median(one)) for one in seconds),
        floor,
        in_a_row,
        rough,
        new_size,
    )


FOUND = output_files.Format("a result of a benchmark", endings=("json",))

RESULTS = output_files.Format("results of collalgo bench", endings=("json",))

CSV = output_files.Format("a table of collalgo bench", endings=("csv",))


def keep(file: Path, found: Any, *, force: bool = False) -> None:
    """Write results, a mapping or a list of some, to a file."""
    first, *others = found if isinstance(found, list) else [found]
    marked = {"maker": FOUND.mark, **first}
    document = [marked, *others] if isinstance(found, list) else marked
    text = json.dumps(document, indent=1) + "\n"
    write_or_refuse(file, text, FOUND, force=force)


def environment(ranks: int, **more: Any) -> dict[str, Any]:
    """The environment of a measurement, and ``more`` entries."""
    affinity = sorted(os.sched_getaffinity(0))
    return {
        "collalgo": collalgo.__version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "affinity": affinity,
        "launcher": identity().launcher,
        "ranks": ranks,
        "commit": _commit(),
        **more,
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    """The commit of the sources, if they are in a repository."""
    folder = Path(collalgo.__file__).parents[1]
    if not (folder / ".git").exists() or shutil.which("git") is None:
        return ""
    asked = subprocess.run(
        ["git", "-C", folder, "rev-parse", "HEAD"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip()


def own_command() -> str:
    """The command of this process."""
    module = sys.modules["__main__"].__spec__
    of_module = module and "python -m " + module.name.removesuffix(".__main__")
    return " ".join([of_module or Path(sys.argv[0]).name, *sys.argv[1:]])


def as_json(records: Sequence[Record], conditions: dict[str, Any]) -> str:
    """Format the rows, the environment and the command as JSON."""
    document = {
        "version": VERSION,
        "maker": RESULTS.mark,
        "command": own_command(),
        "environment": conditions,
        "results": [row._asdict() for row in records],
    }
    return json.dumps(document, indent=1) + "\n"


def of_json(path: Path) -> list[Record]:
    """The rows of a file; raises as :func:`read_results`."""
    return read_results(path)[0]


def read_results(path: Path) -> tuple[list[Record], dict[str, Any]]:
    """The rows of a file, and the environment with the command.

    Raises
    ------
    ValueError
        If this version did not write the file.
    """
    try:
        document = read_json(path)
        rows = _rows(document)
    except ValueError as error:
        raise ValueError(
            f"{path} holds no results of collalgo bench --json: {error}"
        ) from None
    known = document.get("environment")
    found = dict(known) if isinstance(known, dict) else {}
    return rows, {"command": document.get("command", ""), **found}


def _rows(document: Any) -> list[Record]:
    """The rows of a document."""
    if not isinstance(document, dict) or "version" not in document:
        raise ValueError("it has no version")
    if document["version"] != VERSION:
        raise ValueError(f"its version is {document['version']!r:.40}, not {VERSION}")
    results = document.get("results")
    if not isinstance(results, list):
        raise ValueError("it has no list of results")  # noqa: TRY004
    return [_row(row, number) for number, row in enumerate(results, 1)]


def _row(row: Any, number: int) -> Record:
    """A row of a document, checked."""
    fields = row if isinstance(row, dict) else {}
    missing = [name for name in REQUIRED if name not in fields]
    unknown = [name for name in fields if name not in Record._fields]
    if missing or unknown:
        what, name = ("no", missing[0]) if missing else ("an unknown", unknown[0])
        raise ValueError(f"result {number} has {what} {name[:40]!r}")
    runs = fields["runs"]
    values = {**fields, "runs": tuple(runs) if isinstance(runs, list) else runs}
    for name, value in values.items():
        if not _is_valid(name, value):
            raise ValueError(f"result {number}: {name} is {value!r:.40}")
    return Record(**values)


def _is_valid(name: str, value: Any) -> bool:
    """Whether a field of a row has a value of its kind."""
    if name == "runs":
        return isinstance(value, tuple) and bool(value) and all(map(_is_time, value))
    if name == "rough":
        return type(value) is bool
    if name in TEXTS:
        return isinstance(value, str)
    if name in INTEGERS:
        return type(value) is int and 0 <= value < 1 << 63
    if name in OPTIONAL and value is None:
        return True
    return _is_time(value) or (name in OPTIONAL and value == 0)


def _is_time(value: Any) -> bool:
    """Whether a value is a positive finite number."""
    return type(value) in (int, float) and 0 < value < sys.float_info.max


def as_csv(records: Sequence[Record]) -> str:
    """Format the rows as CSV, the independent variables first.

    The last column is for :mod:`collalgo.base.seal`, and empty but in the first row.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    columns = [name for name in Record._fields if name != "runs"]
    writer.writerow([*columns, "maker"])
    makers = chain([CSV.mark], repeat(""))
    for row, maker in zip(records, makers, strict=False):
        writer.writerow([*(getattr(row, name) for name in columns), maker])
    return text.getvalue()
