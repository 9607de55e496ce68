"""The console for tables, and the progress indicator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from rich.console import Console

if TYPE_CHECKING:  # as few commands show it
    from rich.progress import Progress

#: The seconds after which a command shows its progress.
SILENT = 1.0


#: The columns of a line that is not shown on a terminal: more than any table has.
UNLIMITED = 1 << 16


def wide_console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal; without one, lines have no limit."""
    console = plain_console(stderr=stderr)
    if not console.is_terminal:
        console.width = UNLIMITED
    return console


def plain_console(*, stderr: bool = False) -> Console:
    """A console that prints brackets, as in names of files or extras, as they are."""
    return Console(stderr=stderr, markup=False)


#: The work that is shown at present.
_shown: list[str] = []


@contextmanager
def patience(what: str) -> Iterator[Callable[[str], None]]:
    """Show the present work and its duration on a terminal, if it takes a while.

    The value changes the words for the present work. Within other work it is a part of
    that, which is shown.
    """
    console = Console(stderr=True)
    if _shown or not console.is_terminal:
        yield lambda _: None
        return
    progress = _progress(console)
    task = progress.add_task(what, total=None)
    late = Timer(SILENT, progress.start)
    late.daemon = True
    late.start()
    _shown.append(what)
    try:
        yield lambda words: progress.update(task, description=words)
    finally:
        _shown.remove(what)
        late.cancel()
        late.join()
        progress.stop()


def _progress(console: Console) -> "Progress":
    """The indicator of present work, which is not shown yet."""
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = SpinnerColumn(), "{task.description}", TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True)
