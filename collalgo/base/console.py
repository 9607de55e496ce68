"""The console for tables, and the progress indicator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

from rich.console import Console

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


@contextmanager
def patience(what: str) -> Iterator[Callable[[str], None]]:
    """Show the present work and its duration on a terminal, if it takes a while.

    The value changes the words for the present work.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = SpinnerColumn(), "{task.description}", TimeElapsedColumn()
    progress = Progress(*columns, console=console, transient=True)
    task = progress.add_task(what, total=None)
    late = Timer(SILENT, progress.start)
    late.daemon = True
    late.start()
    try:
        yield lambda words: progress.update(task, description=words)
    finally:
        late.cancel()
        late.join()
        progress.stop()
