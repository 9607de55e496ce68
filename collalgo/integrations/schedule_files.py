"""Files of other projects that hold a schedule."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from collalgo.base.input_files import read_text
from collalgo.errors import ScheduleError

Content = TypeVar("Content")


def read_schedule(
    path: str | Path, most: int, parse: Callable[[str, str], Content]
) -> Content:
    """Parse the text of a file, at most some bytes, with the default for its name.

    Raises
    ------
    ScheduleError
        If the file cannot be read or parsed; it names the path.
    """
    try:
        return parse(read_text(path, most), Path(path).stem)
    except (ValueError, ScheduleError) as error:
        raise ScheduleError(f"{path}: {error}") from None
