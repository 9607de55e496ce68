"""The literal texts of errors, from the places in the source that raise or return them.

``python -m docs.messages`` prints a line for each: the file, the line, the error and
the text, with values in braces. Texts that other functions make are where these are.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]

#: The ends of the names of classes of errors.
ENDS = "Error", "Exception", "Failed", "Closed", "Revoked", "Timeout"

#: The beginning of a statement that raises an error, or returns one for its caller.
RAISE = re.compile(
    r"^[ \t]+(?:raise (?P<raised>[\w.]+)"
    rf"|return (?P<returned>[\w.]*(?:{'|'.join(ENDS)})))\(",
    re.MULTILINE,
)

#: A string, a parenthesis, a comma, or any other character.
PART = re.compile(
    r"[rfb]{0,2}(?P<string>\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*')|#[^\n]*|(?P<other>.)",
    re.DOTALL,
)


class Message(NamedTuple):
    """A place that raises or returns an error, the error, and its text.

    Attributes
    ----------
    place : str
        The file and line.
    error : str
        The name of the class, or of the function that makes the error.
    text : str
        The text.
    """

    place: str
    error: str
    text: str


def messages_of(text: str) -> Iterator[tuple[int, str, str]]:
    """The line, the error and the text of each statement that raises or returns one.

    >>> [*messages_of(' raise ValueError(f"x is {x}; " "pass 0")')]
    [(1, 'ValueError', 'x is {x}; pass 0')]
    >>> [*messages_of(' raise wrong_type("f", "x", x, "a list")')]
    [(1, 'wrong_type', 'f x a list')]
    >>> [*messages_of(' return ValueError("no")')]
    [(1, 'ValueError', 'no')]
    """
    for found in RAISE.finditer(text):
        depth, words = 1, ""
        for part in PART.finditer(text, found.end()):
            depth += {"(": 1, ")": -1}.get(part["other"], 0)
            if part["string"]:
                words += part["string"][1:-1]
            elif part["other"] == ",":
                words += " "
            elif not depth:
                break
        line = text.count("\n", 0, found.start()) + 1
        yield line, found["raised"] or found["returned"], " ".join(words.split())


def messages() -> Iterator[Message]:
    """The messages of the package and its benchmarks."""
    for folder in ("collalgo", "bench"):
        for suffix in ("py", "pyx"):
            for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
                name = path.relative_to(ROOT).as_posix()
                source = path.read_text(encoding="utf-8")
                for line, error, text in messages_of(source):
                    yield Message(f"{name}:{line}", error, text)


if __name__ == "__main__":
    for each in messages():
        sys.stdout.write(f"{each.place}: {each.error}: {each.text}\n")
