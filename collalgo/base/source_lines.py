"""Lines of users' code, as errors and dumps name them."""

import os
import sys
import threading
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType, GeneratorType

#: The beginning of the names of the library's own files.
PACKAGE = str(Path(__file__).parents[1]) + os.sep

#: The same, and those of its compiled files, which have no folder.
OWN = (
    PACKAGE,
    "collalgo/_kernels/",
    "collalgo/comm/",
)

#: Files whose lines are those of no user: where threads begin.
OF_THREADS = (threading.__file__, "<frozen ")

#: The most lines of a stack.
MOST_LINES = 20


def is_of_users(file: str) -> bool:
    """Whether a file of a traceback is not of the library."""
    return not file.startswith(OWN)


def place_of(error: BaseException) -> tuple[str, int, str] | None:
    """The innermost line outside the library in a traceback: file, line, function.

    It is a line of the library if there is no other; None without a traceback.
    """
    places = [
        (frame.f_code.co_filename, number, frame.f_code.co_name)
        for frame, number in walk_tb(error.__traceback__)
    ]
    users = [place for place in places if is_of_users(place[0])]
    found = users or places
    return found[-1] if found else None


def line_of_generator(generator: object) -> str | None:
    """The innermost line of users at which a generator stands, as ``file:line``.

    None without such a line, after its end, or for another object.
    """
    found = None
    while isinstance(generator, GeneratorType) and generator.gi_frame is not None:
        frame = generator.gi_frame
        if not frame.f_code.co_filename.startswith(PACKAGE):
            found = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        generator = generator.gi_yieldfrom
    return found


def stacks() -> dict[str, list[str]]:
    """The present lines of users in each thread that has any, innermost first."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = {
        names.get(number, str(number)): _lines(frame)
        for number, frame in sys._current_frames().items()
    }
    return {name: lines for name, lines in found.items() if lines}


def _lines(frame: FrameType) -> list[str]:
    """The lines of users in a stack, each with the name of its function."""
    places = ((each.f_code, number) for each, number in walk_stack(frame))
    return [
        f"{code.co_filename}:{number} in {code.co_name}"
        for code, number in places
        if not code.co_filename.startswith((*OWN, *OF_THREADS))
    ][:MOST_LINES]
