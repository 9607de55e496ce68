"""The kinds of calls, and the idle programs, that equal groups of a process share.

Groups are equal in which this process has the same rank among as many ranks, on the
same hosts and with the same host profile. Their calls run the same programs.
"""

from collections.abc import Hashable
from typing import Any, NamedTuple

from collalgo._kernels.comm.call_kind import SharedRange, are_unset
from collalgo.algorithms.catalogue import ALGORITHMS, Algorithm
from collalgo.base.cache import make_room, recalled
from collalgo.engine.call import Call
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.overrides import (
    NOTHING,
    BySize,
    of_environment,
    variables_of,
)


class SharedKind(NamedTuple):
    """A kind of calls, and the ranges of sizes that run the same program.

    Attributes
    ----------
    call : Call
        One of them, under its plain name.
    itemsize, shares, blocks, buffers : int
        As of :class:`collalgo._kernels.comm.call_kind.CallKind`.
    variables : tuple of bytes
        The variables of the environment that decide on the call.
    ranges : dict
        The ranges with what they were decided by: the environment, and the algorithms
        at that time. A range that was decided otherwise is made again.
    """

    call: Call
    itemsize: int
    shares: int
    blocks: int
    buffers: int
    variables: tuple[bytes, ...]
    ranges: dict[SharedRange, tuple[BySize, list[Algorithm]]]

    @classmethod
    def of(cls, call: Call, size: int) -> "SharedKind":
        """The kind of a plain call of ``size`` ranks."""
        collective = COLLECTIVES[call.collective]
        blocks, buffers = collective.buffer_blocks(size), collective.buffers(size)
        shares = call.shares(size)
        variables = tuple(one.name.encode() for one in variables_of(call.collective))
        return cls(call, call.dtype.itemsize, shares, blocks, buffers, variables, {})

    def by_environment(self, size: int) -> BySize:
        """The decisions of the environment."""
        if are_unset(self.variables):
            return NOTHING
        return of_environment(self.call.collective, size)

    def range_of(self, nbytes: int, size: int) -> SharedRange | None:
        """The range of a size, if one is known that still holds."""
        for found, (environment, rows) in list(self.ranges.items()):
            if (
                found.least <= nbytes < found.limit
                and rows == ALGORITHMS
                and environment == self.by_environment(size)
            ):
                return found
        return None

    def add(self, found: SharedRange, size: int) -> None:
        """Remember a range of sizes."""
        self.ranges[found] = self.by_environment(size), [*ALGORITHMS]
        make_room(self.ranges)


#: The types of an op and an algorithm that are names, or none.
NAMED = (str, type(None))


def is_alike(call: Call) -> bool:
    """Whether a call has the same kind in all equal groups: no object of a user."""
    return (
        type(call.op) in NAMED
        and type(call.algorithm) in NAMED
        and isinstance(call.reproducible, bool)
    )


#: The kinds of calls, for the ranks of equal groups.
Kinds = dict[Any, SharedKind]

_kinds: dict[Hashable, Kinds] = {}


def kinds_of(ranks: Hashable) -> Kinds:
    """The kinds of calls of all equal groups with these ranks."""
    return recalled(_kinds, ranks, lambda _: {})


def forget() -> None:
    """Clear everything that groups share, as for a test."""
    _kinds.clear()
