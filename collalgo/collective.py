"""What each collective promises, as data: who contributes what, who ends with what.

A value is described by the set of ranks that contributed to it, written as a bit
mask: bit ``r`` stands for the contribution of rank ``r``. The buffer is cut into one
block per rank. :mod:`collalgo.verify` proves schedules against these promises.
"""

from collections.abc import Callable
from typing import NamedTuple


class Place(NamedTuple):
    """One block of the buffer at one rank, in a collective of ``size`` ranks."""

    rank: int
    block: int
    size: int
    root: int

    @property
    def mine(self) -> int:
        return 1 << self.rank

    @property
    def everyone(self) -> int:
        return (1 << self.size) - 1


Promise = Callable[[Place], int]
NOTHING = 0


class Collective(NamedTuple):
    """A collective: its name, and which contributions a block holds before and after.

    ``before`` gives :data:`NOTHING` where a block is undefined, ``after`` where it
    does not matter what the block holds.
    """

    name: str
    before: Promise
    after: Promise
    rooted: bool = False
    reduces: bool = False
    carries_data: bool = True


def _at_root(place: Place) -> int:
    return 1 << place.root if place.rank == place.root else NOTHING


COLLECTIVES = {
    collective.name: collective
    for collective in (
        Collective("allreduce", lambda p: p.mine, lambda p: p.everyone, reduces=True),
        Collective("broadcast", _at_root, lambda p: 1 << p.root, rooted=True),
        Collective(
            "reduce",
            lambda p: p.mine,
            lambda p: p.everyone if p.rank == p.root else NOTHING,
            rooted=True,
            reduces=True,
        ),
        Collective(
            "allgather",
            lambda p: p.mine if p.block == p.rank else NOTHING,
            lambda p: 1 << p.block,
        ),
        Collective(
            "reduce_scatter",
            lambda p: p.mine,
            lambda p: p.everyone if p.block == p.rank else NOTHING,
            reduces=True,
        ),
        Collective("barrier", lambda _: NOTHING, lambda _: NOTHING, carries_data=False),
    )
}
