"""The coverage of the calls: every dtype, op, collective and kind of array.

``make docs PAGES=coverage`` writes ``docs/coverage.md`` from calls on two ranks, in the
environment of ``make torch``, as the page has torch and JAX.
"""

import secrets
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from docs.coverage_cells import (
    DTYPES,
    MOVING,
    OPS,
    REDUCING,
    Cell,
    Outcome,
    cells,
    outcomes,
)
from docs.coverage_kinds import PACKAGES, kinds_here
from docs.pages import GENERATED, write_page

PAGE = Path(__file__).parent / "coverage.md"

#: The Python with torch and JAX.
WITH_PACKAGES = PAGE.parents[1] / ".venv-torch" / "bin" / "python"

#: All dtypes.
EVERY = [dtype for row in DTYPES.values() for dtype in row]

HEAD = f"""# Dtypes, ops and arrays

{GENERATED} from calls of two ranks; a test repeats some of them, `make slow` all.
In a cell with "yes" every call gave the result and the dtype of NumPy. In an empty cell
every call raised an error on both ranks that names the call or the dtype, before any
message. Nothing is converted. The results of `argmin` and `argmax` are ranks, of int64;
`minloc` and `maxloc` also take a pair of arrays. `hypot` is an example of a ufunc.

## Reductions

`allreduce`, `reduce`, `reduce_scatter`, `scan` and `exscan`; "not scan" means all but
the last two.

"""

MOVED = "\n## Calls that only move elements\n\n"

ARRAYS = """
## Kinds of arrays

A result is an array of the kind of the argument. The table counts the calls on all
dtypes, with all ops, by what became of them, without those on dtypes that a kind lacks.

"""

OF_KIND = """
### {kind}

"Moved" is the five calls that only move elements. Dtypes that the kind lacks are left
out.

"""


def page() -> str:
    """The page, from all calls."""
    found = outcomes([*cells(EVERY, kinds=kinds_here())])
    return "".join((
        HEAD, _table(["dtype", *OPS], _reductions(found, "array")),
        MOVED, _table(["dtype", *MOVING], _moves(found)),
        ARRAYS, _table(["kind", "right", "error", "wrong"], _counts(found)),
        *(_of_kind(found, kind) for kind in kinds_here() if kind != "array"),
    ))  # fmt: skip


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _reductions(found: dict[Cell, Outcome], kind: str) -> Iterator[list[str]]:
    for name in DTYPES:
        yield [name, *(_of_op(found, name, op, kind) for op in OPS)]


def _of_op(found: dict[Cell, Outcome], row: str, op: str, kind: str) -> str:
    """What became of an op on the dtypes of a row, in all collectives."""
    verdicts = [_verdict(found, row, name, op, kind) for name in REDUCING]
    if verdicts[:3] == ["right"] * 3 and verdicts[3:] == ["refused"] * 2:
        return "not scan"
    return _mark(set(verdicts))


def _moves(found: dict[Cell, Outcome]) -> Iterator[list[str]]:
    for name in DTYPES:
        verdicts = [_verdict(found, name, each, None, "array") for each in MOVING]
        yield [name, *(_mark({verdict}) for verdict in verdicts)]


def _moved(found: dict[Cell, Outcome], row: str, kind: str) -> str:
    """What became of all calls that only move the dtypes of a row."""
    return _mark({_verdict(found, row, each, None, kind) for each in MOVING})


def _counts(found: dict[Cell, Outcome]) -> Iterator[list[str]]:
    for kind in kinds_here():
        verdicts = [each.verdict for cell, each in found.items() if cell.kind == kind]
        counts = [verdicts.count(word) for word in ("right", "refused", "wrong")]
        yield [kind, *map(str, counts)]


def _of_kind(found: dict[Cell, Outcome], kind: str) -> str:
    """The table of a kind, unless every call on it is refused."""
    of_kind = {each.verdict for cell, each in found.items() if cell.kind == kind}
    if "right" not in of_kind:
        return ""
    rows = (
        [name, _moved(found, name, kind), *ops]
        for name, *ops in _reductions(found, kind)
        if set(ops) != {"-"}
    )
    return OF_KIND.format(kind=kind) + _table(["dtype", "moved", *OPS], rows)


def _verdict(
    found: dict[Cell, Outcome], row: str, collective: str, op: str | None, kind: str
) -> str:
    """The verdict that is common to the dtypes of a row."""
    verdicts = {found[Cell(collective, op, d, kind)].verdict for d in DTYPES[row]}
    return verdicts.pop() if len(verdicts) == 1 else "mixed"


def _mark(verdicts: set[str]) -> str:
    words = {"right": "yes", "refused": "", "missing": "-"}
    return words.get("/".join(sorted(verdicts)), "/".join(sorted(verdicts)))


def written_words(text: str) -> dict[tuple[str, str, str], str]:
    """The words of the tables of a page, by heading, name of the row and column."""
    found: dict[tuple[str, str, str], str] = {}
    section, head = "", [""]
    for line in text.splitlines():
        words = [word.strip() for word in line.strip("|").split("|")]
        if line.startswith("#"):
            section = line.lstrip("# ")
        if not line.startswith("| "):
            head = []
        elif not head:
            head = words
        elif words[1] != "---":
            pairs = zip(head, words, strict=True)
            found.update({(section, words[0], name): word for name, word in pairs})
    return found


def differing(count: int, seed: int | None = None) -> list[tuple[Cell, Outcome]]:
    """The calls, of some at random, that are not as the page has them.

    The seed of the choice, by default a new one, is printed.
    """
    seed = secrets.randbits(32) if seed is None else seed
    sys.stdout.write(f"seed {seed}\n")
    rng, written = np.random.default_rng(seed), written_words(PAGE.read_text())
    every = [*cells(EVERY, kinds=kinds_here())]
    chosen = [every[number] for number in rng.choice(len(every), count, replace=False)]
    found = outcomes(chosen)
    return [pair for pair in found.items() if not _is_so(*pair, written)]


def _is_so(
    cell: Cell, found: Outcome, written: dict[tuple[str, str, str], str]
) -> bool:
    """Whether a call became what the page says."""
    row = next(name for name, dtypes in DTYPES.items() if cell.dtype in dtypes)
    section = cell.kind
    if cell.kind == "array":
        section = "Reductions" if cell.op else "Calls that only move elements"
    column = cell.op or ("moved" if cell.kind != "array" else cell.collective)
    word = written.get((section, row, column), "")  # as for kinds without a table
    if word == "not scan":
        word = "" if cell.collective in ("scan", "exscan") else "yes"
    return found.verdict in {"yes": ("right",), "": ("refused", "missing")}[word]


def write() -> None:
    """Write the page, by the Python with torch and JAX."""
    if set(PACKAGES) <= set(kinds_here()):
        write_page(PAGE, page())
        return
    if not WITH_PACKAGES.exists():
        raise SystemExit("make torch first: docs/coverage.md has torch and JAX")
    words = [str(WITH_PACKAGES), "-m", "docs.coverage"]
    subprocess.run(words, cwd=PAGE.parents[1], check=True)


def main(words: Sequence[str]) -> None:
    """Write the page or, with a number, print which of as many calls differ from it.

    A second number is the seed of their choice.
    """
    if not words:
        write_page(PAGE, page())
        return
    lines = [f"{cell} {found}\n" for cell, found in differing(*map(int, words))]
    sys.stdout.write("".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
