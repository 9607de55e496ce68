"""Where tables are printed."""

from rich.console import Console


def wide_console(width: int, *, stderr: bool = False) -> Console:
    """Standard output, as wide as the terminal or, where it is none, so wide."""
    console = Console(stderr=stderr)
    return console if console.is_terminal else Console(width=width, stderr=stderr)
