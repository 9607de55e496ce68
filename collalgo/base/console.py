"""What a terminal is used for: its width, and the sign that work goes on."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import wrap
from threading import Timer

from rich.console import Console

#: The seconds after which a command shows that it works.
SILENT = 1.0


def wide_console(width: int, *, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or ``width`` columns without a terminal."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(width=width, stderr=stderr)


def wrapped(text: str, *, stderr: bool = False) -> str:
    """Text with its long lines broken between words, if it goes to a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if not stream.isatty():
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Show on a terminal what is done, and for how long, if it takes a while."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = SpinnerColumn(), "{task.description}", TimeElapsedColumn()
    progress = Progress(*columns, console=console, transient=True)
    progress.add_task(what, total=None)
    late = Timer(SILENT, progress.start)
    late.daemon = True
    late.start()
    try:
        yield
    finally:
        late.cancel()
        late.join()
        progress.stop()


def _parts(line: str, width: int) -> list[str]:
    """The parts of a line that is too long, the further ones indented."""
    if len(line) <= width:
        return [line]
    start = " " * (len(line) - len(line.lstrip()))
    return wrap(
        line.lstrip(),
        width,
        initial_indent=start,
        subsequent_indent=f"{start}    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
