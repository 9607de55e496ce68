"""Lines of users' code, as errors name them."""

import os
from pathlib import Path
from traceback import walk_tb

#: The beginning of the names of the library's own files.
PACKAGE = str(Path(__file__).parents[1]) + os.sep


def line_of(error: Exception) -> str:
    """The innermost line outside the library in a traceback, as ``file:line``.

    It is a line of the library if there is no other.
    """
    places = [(f.f_code.co_filename, n) for f, n in walk_tb(error.__traceback__)]
    users = [place for place in places if not place[0].startswith(PACKAGE)]
    return "{}:{}".format(*(users or places)[-1])
