"""Long lines, broken at the width of the terminal."""

import shutil
import sys
from textwrap import wrap


def wrapped(text: str, *, stderr: bool = False) -> str:
    """Text with its long lines broken between words, if it goes to a terminal."""
    stream = sys.stderr if stderr else sys.stdout
    if stream is None or not stream.isatty():  # None if it is closed
        return text
    width = shutil.get_terminal_size().columns
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


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
