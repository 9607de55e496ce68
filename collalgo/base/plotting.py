"""Figures by matplotlib, which is imported at the first figure."""

import io
from pathlib import Path
from typing import Any

from collalgo.base import output_files

PICTURE = output_files.Format("a picture")

#: The format of a file whose name has no suffix.
USUAL = "png"

#: The metadata field for the producing program, by format; it has the mark.
MAKER = {"png": "Software", "svg": "Creator", "pdf": "Creator", "ps": "Creator",
         "eps": "Creator"}  # fmt: skip


def new_figure(width: float, height: float) -> Any:
    """An empty figure; width and height in inches.

    Raises
    ------
    ImportError
        Without matplotlib; it comes with ``pip install 'collalgo[plot]'``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        message = "drawing needs matplotlib: pip install 'collalgo[plot]'"
        raise ImportError(message) from error
    return Figure(figsize=(width, height), layout="constrained")


def obstacle() -> str:
    """Why there can be no figures, or ""."""
    try:
        new_figure(1, 1)
    except ImportError as error:
        return str(error)
    return ""


def check(path: str | Path, *, force: bool = False) -> None:
    """Refuse, before the work, a file that a figure cannot or must not go to.

    Raises
    ------
    ImportError
        Without matplotlib.
    OutputError
        If the file exists and is not a figure that collalgo drew.
    ValueError
        If the suffix of the file name is not a known format.
    """
    known = new_figure(1, 1).canvas.get_supported_filetypes()
    form = _format(Path(path))
    if form not in known:
        raise ValueError(
            f"{path}: unknown picture format {form!r}; choose one of "
            f"{', '.join(sorted(known))}"
        )
    output_files.check(path, PICTURE, force=force)


def save(
    figure: Any, path: str | Path, *, force: bool = False, dpi: float | None = None
) -> None:
    """Write a figure; the suffix gives the format, PNG without a suffix.

    Raises
    ------
    OutputError, ValueError
        As :func:`check`.
    """
    check(path, force=force)
    form = _format(Path(path))
    about = {MAKER[form]: PICTURE.mark} if form in MAKER else None
    drawn = io.BytesIO()
    figure.savefig(drawn, format=form, dpi=dpi or figure.dpi, metadata=about)
    output_files.write(path, drawn.getvalue(), PICTURE, force=force)


def svg(figure: Any) -> str:
    """A figure as SVG, from its first element on."""
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    found = drawn.getvalue()
    return found[found.index("<svg") :]


def literal(words: str) -> str:
    """Words that are drawn as they are: a dollar does not begin a formula."""
    return words.replace("$", r"\$")


def _format(path: Path) -> str:
    return output_files.ending(path) or USUAL
