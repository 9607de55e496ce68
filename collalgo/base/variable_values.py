"""Parsers of environment variables, which raise ValueError with the reason."""

import math
from collections.abc import Callable
from pathlib import Path

from collalgo.base import plugins

#: The reason against the name of a file.
MISSING = "that does not exist"


def text(value: str) -> str:
    """Any text."""
    return value


def seconds(value: str) -> float:
    """Seconds above 0; ``inf`` for no limit."""
    try:
        found = float(value)
    except ValueError:
        found = math.nan
    if not found > 0:
        raise ValueError("is not a number of seconds above 0, or inf")
    return found


def duration(value: str) -> float:
    """Seconds above 0."""
    if math.isinf(found := seconds(value)):
        raise ValueError("is not a number of seconds above 0")
    return found


def nbytes(value: str) -> int:
    """A number of bytes from 0."""
    try:
        found = int(value)
    except ValueError:
        found = -1
    if found < 0:
        raise ValueError("is not a number of bytes from 0")
    return found


def hexadecimal(value: str) -> bytes:
    """Bytes in hexadecimal digits."""
    try:
        return bytes.fromhex(value)
    except ValueError:
        raise ValueError("must be hexadecimal digits, two for each byte") from None


def address(value: str) -> tuple[list[str], int]:
    """Hosts, with commas between several, and a port: ``HOST:PORT``."""
    hosts, _, port = value.rpartition(":")
    if not hosts or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise ValueError("must be HOST:PORT, with commas between several hosts")
    return hosts.split(","), int(port)


def span(value: str) -> tuple[int, int]:
    """A least and a most: ``2:4``."""
    least, _, most = value.partition(":")
    if not (least.isdecimal() and most.isdecimal()):
        raise ValueError("is not a range; write MIN:MAX, as 2:4")
    return int(least), int(most)


def names(value: str) -> list[str]:
    """Names, with commas between them."""
    return [name for name in value.split(",") if name]


def command(value: str) -> tuple[str, ...]:
    """A command, as for a shell."""
    import shlex  # here, as few processes need it

    try:
        return tuple(shlex.split(value))
    except ValueError as error:
        raise ValueError(f"is not a command ({error})") from None


def file(value: str) -> Path:
    """A file that exists."""
    path = Path(value)
    if not path.is_file():
        raise ValueError("is not a file" if path.exists() else MISSING)
    return path


def one_of(*choices: str) -> Callable[[str], str]:
    """One of several words."""

    def choice(value: str) -> str:
        if value not in choices:
            raise ValueError(f"is unknown; choose one of {', '.join(choices)}")
        return value

    choice.__doc__ = " or ".join(f"``{each}``" for each in choices)
    return choice


#: Our engines between hosts.
ENGINES = ("mpi", "ucx")


def engine(value: str) -> str:
    """``mpi``, ``ucx`` or an engine of a plug-in."""
    added = [] if value in ENGINES else plugins.names(plugins.TRANSPORTS)
    return one_of(*ENGINES, *added)(value)
