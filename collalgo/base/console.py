"""The console for tables, and the progress indicator."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread, Timer
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console

if TYPE_CHECKING:  # as few commands show it
    from rich.progress import Progress

#: The seconds after which a command shows its progress.
SILENT = 1.0

#: The same where no terminal shows it, and the most seconds between two lines.
UNSEEN, MOST_UNSEEN = 5.0, 60.0


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

#: Called with new words for the present work.
Say: TypeAlias = Callable[[str], None]


@contextmanager
def patience(what: str) -> Iterator[Say]:
    """Show the present work and its duration on standard error, if it takes a while.

    A terminal shows them at all times, a file or a pipe gets lines at intervals. The
    value changes the words for the present work. Within other work it is a part of
    that, which is shown.
    """
    if _shown:
        yield lambda _: None
        return
    console = Console(stderr=True)
    _shown.append(what)
    try:
        with (_on_terminal if console.is_terminal else _in_lines)(console, what) as say:
            yield say
    finally:
        _shown.remove(what)


@contextmanager
def _on_terminal(console: Console, what: str) -> Iterator[Say]:
    """Show work by a line that changes, and leaves nothing."""
    progress = _progress(console)
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


@contextmanager
def _in_lines(console: Console, what: str) -> Iterator[Say]:
    """Show work by lines, with the seconds since the command began."""
    present, ended = [what], Event()

    def write() -> None:
        while not ended.wait(_lines.pause()):
            with suppress(OSError, ValueError):  # it is closed, or has no reader
                console.print(_lines.line(present[0]), highlight=False, soft_wrap=True)

    writer = Thread(target=write, daemon=True)
    writer.start()
    try:
        yield lambda words: present.__setitem__(0, words)
    finally:
        ended.set()
        writer.join()


class Lines:
    """The lines of a command that no terminal shows: ever less often."""

    def __init__(self) -> None:
        self._begun = monotonic()
        self._due = self._begun + UNSEEN

    def pause(self) -> float:
        """Seconds until the next line, which work that ends soon does not get."""
        return max(min(SILENT, UNSEEN), self._due - monotonic())

    def line(self, words: str) -> str:
        """The line for the present work."""
        seconds = monotonic() - self._begun
        self._due = self._begun + seconds + min(max(UNSEEN, seconds), MOST_UNSEEN)
        return f"{words}: {seconds:.0f} s so far"


_lines = Lines()


def _progress(console: Console) -> "Progress":
    """The indicator of present work, which is not shown yet."""
    from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

    columns = SpinnerColumn(), "{task.description}", TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True)
