"""Where tables are printed."""

from rich.console import Console


def wide_console(width: int) -> Console:
    """Standard output, as wide as the terminal or, where it is none, so wide."""
    console = Console()
    return console if console.is_terminal else Console(width=width)
