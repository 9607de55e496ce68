"""The console for tables."""

from rich.console import Console


def wide_console(width: int, *, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or ``width`` columns without a terminal."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(width=width, stderr=stderr)
