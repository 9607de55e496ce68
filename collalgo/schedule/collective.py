"""The collectives as data: the precondition and the postcondition of each.

The buffer is cut into blocks. The content of a block is the set of ranks that have
contributed to it, as a code: ``r`` is rank r alone, ``size + r`` the ranks 0 to r.
:mod:`collalgo.schedule.prover` proves schedules against these conditions.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from collalgo.base.units import human
from collalgo.errors import AlgorithmNotApplicable

Blocks: TypeAlias = NDArray[np.int64]

#: The code of a block that is undefined before, or arbitrary after.
NOTHING = -1


class Place(NamedTuple):
    """Some blocks of the buffer at one rank, in a collective of ``size`` ranks."""

    rank: int
    blocks: Blocks
    size: int
    root: int

    @property
    def everyone(self) -> int:
        return 2 * self.size - 1

    @classmethod
    def of(cls, rank: int, size: int, root: int, promise: "Collective") -> "Place":
        """All blocks of a collective at one rank."""
        return cls(rank, np.arange(size**promise.blocks), size, root)


#: Codes for the blocks of a place: an array, or one code for all of them.
Promise: TypeAlias = Callable[[Place], Any]


class Collective(NamedTuple):
    """A collective: its name, and the contents of a block before and after.

    The number of blocks is the number of ranks to the power of ``blocks``. In a
    ``prefix`` the result of a rank depends on the ranks before it.
    """

    name: str
    before: Promise
    after: Promise
    blocks: int = 0
    rooted: bool = False
    reduces: bool = False
    carries_data: bool = True
    prefix: bool = False

    def sized(self, words: str, nbytes: float) -> str:
        """Words with the size of the buffer; one without data has none."""
        return f"{words} of {human(nbytes)}" if self.carries_data else words

    def buffers(self, size: int) -> int:
        """The number of buffers of a rank in the whole buffer of the schedules."""
        return size if self.blocks > 1 else 1

    def buffer_blocks(self, size: int) -> int:
        """The number of blocks of the buffer; without blocks, a part for each rank."""
        return size * size if self.blocks > 1 else size


def _mine(place: Place) -> int:
    return place.rank


def _at_root(place: Place) -> int:
    return place.root if place.rank == place.root else NOTHING


def _my_block(place: Place) -> Blocks:
    return np.where(place.blocks == place.rank, np.int64(place.rank), NOTHING)


COLLECTIVES = {
    collective.name: collective
    for collective in (
        Collective("allreduce", _mine, lambda p: p.everyone, reduces=True),
        Collective("broadcast", _at_root, lambda p: p.root, rooted=True),
        Collective(
            "reduce",
            _mine,
            lambda p: p.everyone if p.rank == p.root else NOTHING,
            rooted=True,
            reduces=True,
        ),
        Collective("allgather", _my_block, lambda p: p.blocks, blocks=1),
        Collective(
            "reduce_scatter",
            _mine,
            lambda p: np.where(p.blocks == p.rank, p.everyone, NOTHING),
            blocks=1,
            reduces=True,
        ),
        Collective(
            "alltoall",
            lambda p: np.where(p.blocks // p.size == p.rank, p.rank, NOTHING),
            lambda p: np.where(p.blocks % p.size == p.rank, p.blocks // p.size, -1),
            blocks=2,
        ),
        Collective(
            "gather",
            _my_block,
            lambda p: p.blocks if p.rank == p.root else NOTHING,
            blocks=1,
            rooted=True,
        ),
        Collective(
            "scatter",
            _at_root,
            lambda p: np.where(p.blocks == p.rank, p.root, NOTHING),
            blocks=1,
            rooted=True,
        ),
        Collective("scan", _mine, lambda p: p.size + p.rank, reduces=True, prefix=True),
        Collective(
            "exscan",
            _mine,
            lambda p: p.size + p.rank - 1 if p.rank else NOTHING,
            reduces=True,
            prefix=True,
        ),
        Collective("barrier", lambda _: NOTHING, lambda _: NOTHING, carries_data=False),
    )
}


def collective_of(call: str) -> Collective:
    """The collective that a call runs: a "v" means blocks of any sizes.

    >>> collective_of("alltoallv").name
    'alltoall'
    """
    return COLLECTIVES.get(call) or COLLECTIVES[call.removesuffix("v")]


def on_graph(name: str, graph: Sequence[Sequence[int]]) -> Collective:
    """The part of an allgather or alltoall whose blocks go along a graph.

    Parameters
    ----------
    name
        ``allgather`` or ``alltoall``.
    graph
        The ranks that each rank sends to.
    """
    whole, size = COLLECTIVES[name], len(graph)
    edges = np.zeros((size, size), bool)
    for rank, targets in enumerate(graph):
        edges[rank, list(targets)] = True

    def before(place: Place) -> Blocks:
        chosen = edges.ravel()[place.blocks] if name == "alltoall" else True
        return np.where(chosen, whole.before(place), NOTHING)

    def after(place: Place) -> Blocks:
        sources = place.blocks // size if name == "alltoall" else place.blocks
        return np.where(edges[sources, place.rank], whole.after(place), NOTHING)

    return whole._replace(before=before, after=after)


def promise_of(schedule: object, collective: str) -> Collective:
    """The promise of a schedule, which may be a part of that of its collective.

    Raises
    ------
    AlgorithmNotApplicable
        If it is a part of another collective.
    """
    found: Collective = getattr(schedule, "promise", None) or COLLECTIVES[collective]
    if found.name != collective:
        raise AlgorithmNotApplicable(
            f"{collective}: the schedule performs {found.name}; pass it to "
            f"{found.name}, or a schedule of {collective}",
            collective=collective,
        )
    return found
