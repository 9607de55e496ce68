"""The declaration of the values of a state, which is the same on all members of a job.

Containers and objects may change while a job runs, so of them only the names count.
"""

import hashlib
from typing import Any

import numpy as np

from collalgo.comm.communicator import Communicator
from collalgo.elastic.leaves import description
from collalgo.elastic.transfer import SYNC
from collalgo.elastic.tree import forms
from collalgo.errors import MismatchError

#: Bytes of the digest of a declaration.
DIGEST_BYTES = 16


class Declaration:
    """The names of the values of a state, and the forms of those that are arrays.

    Parameters
    ----------
    skeleton
        The values as they are made; see :mod:`.tree`.
    """

    def __init__(self, skeleton: Any):
        lines = sorted(_line(name, part) for name, part in skeleton[1])
        self._text = "\n".join(lines).encode()

    def digest(self) -> bytes:
        """What differs between declarations that differ."""
        return hashlib.blake2b(self._text, digest_size=DIGEST_BYTES).digest()

    def compare(self, comm: Communicator, root: int) -> None:
        """Compare it with that of the root; all members call this if one differs.

        Raises
        ------
        MismatchError
            On each member whose declaration differs, with both.
        """
        exchange = comm._runner.exchange
        longest = int(exchange(np.array([len(self._text)]), SYNC).max())
        mine = np.zeros(longest, np.uint8)
        mine[: len(self._text)] = np.frombuffer(self._text, np.uint8)
        found = exchange(mine, SYNC)[root].tobytes().rstrip(b"\0")
        if found == self._text:
            return
        ours, theirs = ({*each.decode().split("\n")} for each in (self._text, found))
        raise MismatchError(
            f"the state of rank {comm.rank} has {_values(ours - theirs)}, but that of "
            f"rank {root} {_values(theirs - ours)}; make it with the same names, and "
            "arrays of the same shapes and dtypes, on all members",
            rank=comm.rank,
            missing=(comm.rank,),
        )


def _line(name: str, part: Any) -> str:
    """A value in a declaration: its name, and of an array its form."""
    match part:
        case ["array", *_]:
            return f"{name}, {description(next(forms(part)))}"
    return name


def _values(lines: set[str]) -> str:
    """Some values of a declaration in words."""
    return " and ".join(f"the value {line}" for line in sorted(lines)) or "no such"
