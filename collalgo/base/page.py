"""Pages: one HTML file each, with its style, scripts and data, and no network.

The policy of a page forbids its browser to load anything, whatever names are in it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.base import output_files

PAGE = output_files.Format("a page", endings=("html", "htm"))

#: What a browser may do for a page: apply its own style and run its own scripts.
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)


class Cell(NamedTuple):
    """A cell of a table: its words, what it is sorted by, and how it is shown."""

    words: str
    value: float | None = None
    is_text: bool = False
    is_bad: bool = False


def page(
    title: str,
    parts: Iterable[str],
    *,
    scripts: Sequence[str] = (),
    data: Any = None,
) -> str:
    """A page as text.

    Parameters
    ----------
    title
        The title, as text.
    parts
        The parts of the body, as HTML.
    scripts
        Further scripts, as code; they find the data by ``pageData``.
    data
        A document for the scripts.
    """
    code = "\n".join([f"const pageData = {_as_code(data)};", own("page.js"), *scripts])
    values = {
        "policy": escape(POLICY),
        "title": escape(title),
        "mark": PAGE.mark,
        "style": own("page.css"),
        "body": "\n".join(parts),
        "code": code,
    }
    text = re.sub(r"\{\{(\w+)\}\}", lambda found: values[found[1]], own("page.html"))
    return text.encode(errors="replace").decode()  # names of files may be no text


def own(name: str, package: str = "collalgo.base") -> str:
    """A file of a package, as a script or a style."""
    from importlib.resources import files  # slow, as it imports all about archives

    return files(package).joinpath(name).read_text(encoding="utf-8")


def write(path: str | Path, text: str, *, force: bool = False) -> None:
    """Write a page; raises OutputError as :func:`collalgo.base.output_files.write`."""
    output_files.write(path, text, PAGE, force=force)


def _as_code(data: Any) -> str:
    """A document as JavaScript that ends no element of HTML."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for letter in "<>&\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def frame(text: str, height: int) -> str:
    """A page as an element of a notebook, ``height`` pixels high."""
    return (
        f'<iframe srcdoc="{escape(text)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{height}px;border:0"></iframe>'
    )


def facts(found: Mapping[str, object]) -> str:
    """Names with their values, as a list."""
    rows = (
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in found.items()
    )
    return f'<dl class="facts">{"".join(rows)}</dl>'


def lines(words: Iterable[str]) -> str:
    """Sentences, one below the other."""
    return "".join(f"<p>{escape(line)}</p>" for line in words)


def table(
    name: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]
) -> Iterator[str]:
    """A table that can be sorted and filtered; ``name`` is its id in the page."""
    texts = [any(row[i].is_text for row in rows) for i in range(len(columns))]
    classes = [' class="text"' if is_text else "" for is_text in texts]
    yield (
        f'<input type="search" data-table="{name}" placeholder="filter the rows (/)" '
        f'aria-label="filter the rows"> <output class="hint" data-table="{name}">'
        f"{len(rows)} of {len(rows)} rows</output>"
    )
    head = "".join(
        f'<th{kind}><button type="button">{escape(column)}</button></th>'
        for kind, column in zip(classes, columns, strict=True)
    )
    yield f'<div class="scroll"><table class="sortable" id="{name}">'
    yield f"<thead><tr>{head}</tr></thead><tbody>"
    for row in rows:
        cells = (_cell(cell, text) for cell, text in zip(row, texts, strict=True))
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody></table></div>"


def _cell(cell: Cell, is_text: bool) -> str:
    kinds = " ".join(["text"] * is_text + ["bad"] * cell.is_bad)
    kind = f' class="{kinds}"' if kinds else ""
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    return f"<td{kind}{value}>{escape(cell.words)}</td>"
