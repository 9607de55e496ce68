"""The encoding of documents in the store: JSON, checked as it is read."""

import json
import os
import secrets
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from collalgo.bootstrap.store.job_end import FORMAT
from collalgo.errors import RendezvousError
from collalgo.launch.options import MOST_MEMBERS

#: Characters of a name, a token, a term or a reason at most.
MOST_CHARACTERS = 250

#: Terms of a job at most.
MOST_TERMS = 20

#: A number of a document is less than this.
NUMBERS = 1 << 53


class Member(NamedTuple):
    """A member: the name of its node, and a token of its process.

    A process that is started again has another token, so it is another member.
    """

    name: str
    token: str

    @property
    def process(self) -> str:
        """Its host and process id, as ``host:4711``, for people."""
        return self.token.rpartition(":")[0]


def new_token() -> str:
    """The token of this process: its host, process id, and a random number."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


def encode(**fields: object) -> bytes:
    """A document with these fields."""
    return json.dumps({"format": FORMAT, **fields}, separators=(",", ":")).encode()


class Fields:
    """The fields of a document, checked as they are read.

    Each method raises RendezvousError if the field is missing or of another kind.

    Parameters
    ----------
    value
        The document.
    kind
        What errors call it.
    """

    def __init__(self, value: bytes, kind: str):
        self._value, self._kind = value, kind
        try:
            found = json.loads(value)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise self._malformed(f"is not a document of format {FORMAT}")
        self._fields: dict[str, Any] = found

    def number(self, name: str, least: int = 0) -> int:
        """A whole number."""
        found = self._fields.get(name)
        if type(found) is not int or not least <= found < NUMBERS:
            raise self._malformed(f"has no number {name} of {least} or more")
        return found

    def flag(self, name: str) -> bool:
        """True or false."""
        found = self._fields.get(name)
        if not isinstance(found, bool):
            raise self._malformed(f"has no flag {name}")
        return found

    def text(self, name: str) -> str:
        """A short text."""
        return self._short(name, self._fields.get(name))

    def texts(self, name: str) -> tuple[str, ...]:
        """Several short texts."""
        return self._list(name, self._short)

    def member(self, name: str) -> Member:
        """A member."""
        return self._member(name, self._fields.get(name))

    def members(self, name: str) -> tuple[Member, ...]:
        """Several members, all different."""
        found = self._list(name, self._member)
        if len({member.token for member in found}) < len(found):
            raise self._malformed(f"names a member twice in {name}")
        return found

    def terms(self, name: str, most: int = MOST_TERMS) -> dict[str, str]:
        """Short texts by name."""
        found = self._fields.get(name)
        if not isinstance(found, dict) or len(found) > most:
            raise self._malformed(f"has no terms {name}, at most {most}")
        return {self._short(name, key): self._short(name, found[key]) for key in found}

    def _list(self, name: str, item: Callable[[str, Any], Any]) -> tuple[Any, ...]:
        found = self._fields.get(name)
        if not isinstance(found, list) or len(found) > MOST_MEMBERS:
            raise self._malformed(f"has no list {name}, of at most {MOST_MEMBERS}")
        return tuple(item(name, each) for each in found)

    def _short(self, name: str, found: Any) -> str:
        if not isinstance(found, str) or len(found) > MOST_CHARACTERS:
            raise self._malformed(f"has no text {name}, at most {MOST_CHARACTERS} long")
        return found

    def _member(self, name: str, found: Any) -> Member:
        if not isinstance(found, list) or len(found) != 2:
            raise self._malformed(f"has no member {name}, of a name and a token")
        return Member(self._short(name, found[0]), self._short(name, found[1]))

    def _malformed(self, fault: str) -> RendezvousError:
        return RendezvousError(
            f"a {self._kind} in the store {fault}: {self._value[:60]!r}; run the same "
            "version of collalgo on all nodes, and give each job an id of its own"
        )
