"""The boundary of a step: what all members agree on at a commit."""

from typing import Any

import numpy as np

from collalgo.bootstrap.context import Newcomers
from collalgo.comm.communicator import Communicator
from collalgo.elastic.tree_sums import ADDED_ALIKE, Numbers

#: The flags of a member: that it knows of a change of the members, and that it
#: does not know the prices of its calls.
CHANGED, UNPRICED = 0, 1

#: Elements that a sum over shards has for the flags.
ELEMENTS = 2

#: The members whose flags a sum of bytes can count.
MOST_OF_BYTES = 127

#: The characters of native dtypes of which a sum is not 0 if a member has added 1; E is
#: bfloat16.
COUNTING = ADDED_ALIKE + "?eE"


class MembersChange(BaseException):
    """The members change at a commit; no ``except Exception`` of a user catches it."""


class Boundary:
    """Finds at each commit, alike on all members, whether the members change there.

    The flags of the members are elements of the sums over shards before a commit;
    without such a sum, a commit has an exchange of its own.

    Parameters
    ----------
    comm
        The communicator of the present members.
    newcomers
        Knows whether the members change.
    """

    def __init__(self, comm: Communicator, newcomers: Newcomers):
        self._runner, self._newcomers = comm._runner, newcomers
        self._size = comm.size
        self._found: Numbers | None = None
        self._mine = np.empty(ELEMENTS, np.uint8)

    def fits(self, dtype: np.dtype[Any]) -> bool:
        """Whether sums of a dtype can have the flags as elements."""
        is_wide = dtype.itemsize > 1 or dtype.kind == "b"
        can_count = is_wide or self._size <= MOST_OF_BYTES
        return dtype.isnative and dtype.char in COUNTING and can_count

    def write_flags(self, elements: Numbers) -> None:
        """Write the flags of this member into the last elements of its sum."""
        elements[CHANGED] = self._newcomers.has_changed()
        elements[UNPRICED] = not self._runner.programs.are_prices_known()

    def read_flags(self, elements: Numbers) -> None:
        """Keep the flags of all members, the last elements of the sum of all."""
        self._found = elements

    def use_prices(self) -> None:
        """After a sum: let prices decide, once all members know those of their calls.

        A job that commits rarely needs no commit for that.
        """
        if self._found is not None:
            self._use_prices(self._found[UNPRICED])

    def check(self) -> None:
        """At a commit: interrupt all members, if one of them knows of a change.

        Once all of them know the prices of their calls, these decide.
        """
        found, self._found = self._found, None
        changed, unpriced = (self._exchange() if found is None else found).tolist()
        if changed:
            raise MembersChange
        self._use_prices(unpriced)

    def _use_prices(self, unpriced: Any) -> None:
        if not unpriced:
            self._runner.programs.use_prices()

    def _exchange(self) -> Numbers:
        """The flags of all members, by a call of its own."""
        self.write_flags(self._mine)
        found = self._runner.exchange_as_call(self._mine, "commit")
        highest: Numbers = found.max(axis=0)
        return highest
