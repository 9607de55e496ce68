"""Sums over logical shards whose bits do not depend on the assignment of shards.

Floating-point addition is not associative, so the order of the additions is fixed: a
binary tree over the shards, in which shard ``2 k`` and ``2 k + 1`` are added, then the
sums of two, and so on. A member computes neighbouring shards, and adds what the tree
adds of them. Then each member gets a part of the elements of all these sums, adds what
the tree adds of the sums of different members, and all gather the parts.
"""

import math
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.engine.transport.transport import PART_OF_NEXT
from collalgo.base.integers import integer
from collalgo.comm.communicator import Communicator
from collalgo.elastic.tree import is_tensor
from collalgo.engine.arrays import as_array, plain, result_array
from collalgo.engine.call import Call
from collalgo.engine.devices.arrays import Shadow

Numbers = NDArray[Any]

#: The call that errors name, and the bytes of the digest of a form.
NAME, FORM_BYTES = "sum_shards", 16


class Node(NamedTuple):
    """A node of the tree: ``1 << level`` shards from ``number << level`` on."""

    level: int
    number: int


class Sums:
    """Neighbouring nodes of the tree with their sums, added as the tree adds them.

    Attributes
    ----------
    nodes : list of Node
        The largest nodes of what was added so far, in order.
    totals : list of array
        Their sums.
    """

    def __init__(self, shards: int):
        self._shards = shards
        self.nodes: list[Node] = []
        self.totals: list[Numbers] = []

    def add(self, node: Node, total: Numbers | None = None) -> None:
        """Append the next node; its sum is overwritten. Without one, only nodes are."""
        self.nodes.append(node)
        if total is not None:
            self.totals.append(total)
        while True:
            level, number = self.nodes[-1]
            if number % 2 and self.nodes[-2:-1] == [(level, number - 1)]:
                self._merge()
            elif number % 2 or (number + 1) << level < self._shards or not number:
                return  # its sibling is not here yet, or it is the root
            self.nodes[-1] = Node(level + 1, number // 2)

    def _merge(self) -> None:
        """Add the last sum to the one before."""
        self.nodes.pop()
        if self.totals:
            last = self.totals.pop()
            np.add(self.totals[-1], last, out=self.totals[-1])


def sum_shards(comm: Communicator, shards: int, of: Callable[[int], Any]) -> Any:
    """The sum of ``of(0)`` to ``of(shards - 1)``, with the same bits for any members.

    All members call it. Each computes a share of the shards, so a batch that is divided
    into a fixed number of them gives the same result for any members.

    Parameters
    ----------
    comm
        The communicator of the present members.
    shards
        The number of shards, at least one for each member; a multiple of the usual
        number of members shares the work evenly, and a power of two sends least.
    of
        Computes the contribution of a shard from its number: an array, a tensor of
        torch in the memory of the host, or a list or tuple of them. Those of all
        shards have the same shapes and dtypes, and must depend on the number alone.

    Returns
    -------
    array, list or tuple
        The sum, of the kind that ``of`` returns.

    Raises
    ------
    ValueError
        If there are fewer shards than members, or members pass other numbers of
        shards, or contributions of other shapes or dtypes.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> from collalgo import elastic
    >>> def of(k):
    ...     return np.full(3, 0.1) ** k
    >>> def total(comm):
    ...     return elastic.sum_shards(comm, shards=8, of=of)[0].hex()
    >>> len({bits for n in (1, 2, 3, 5) for bits in collalgo.threads(total, n)})
    1
    """
    shards = integer(shards, "shards", "sum_shards", 1)
    if shards < comm.size:
        raise ValueError(
            f"sum_shards: {shards} shards are fewer than {comm.size} members; divide "
            "the batch into more"
        )
    mine = share(shards, comm.rank, comm.size)
    packing = Packing(of(mine[0]))
    _check_alike(comm, shards, packing)
    sums = [Sums(shards) for _ in packing.dtypes]
    for number in mine:
        leaves = packing.first if number == mine[0] else packing.packed(of(number))
        for each, leaf in zip(sums, leaves, strict=True):
            each.add(Node(0, number), leaf)
    if comm.size == 1:
        return packing.unpacked([each.totals[0] for each in sums])
    return packing.unpacked([_across(comm, shards, each.totals) for each in sums])


def share(shards: int, rank: int, size: int) -> range:
    """The neighbouring shards of one of ``size`` members."""
    return range(shards * rank // size, shards * (rank + 1) // size)


def nodes_of(shards: int, rank: int, size: int) -> list[Node]:
    """The nodes of which a member has the sums."""
    found = Sums(shards)
    for number in share(shards, rank, size):
        found.add(Node(0, number))
    return found.nodes


def _check_alike(comm: Communicator, shards: int, packing: "Packing") -> None:
    """Check that the first contributions of all members have the same form.

    Raises
    ------
    ValueError
        On every member, if one has another form or another number of shards.
    """
    mine = f"{shards} shards of {packing.form}"
    digest = blake2b(mine.encode(), digest_size=FORM_BYTES).digest()
    everyone = comm._runner.exchange(np.frombuffer(digest, np.uint8).copy(), NAME)
    differing = np.flatnonzero((everyone != everyone[comm.rank]).any(axis=1))
    if len(differing):
        raise ValueError(
            f"sum_shards: rank {comm.rank} passed {mine}, but rank {differing[0]} "
            "passed others; all members must pass as many shards, and arrays of the "
            "same shapes and dtypes"
        )


def _across(comm: Communicator, shards: int, totals: Sequence[Numbers]) -> Numbers:
    """Add the sums of all members as the tree adds them."""
    size, length = comm.size, len(totals[0])
    owned = [nodes_of(shards, rank, size) for rank in range(size)]
    ends = [length * rank // size for rank in range(size + 1)]
    lengths = np.diff(ends)
    sent = np.concatenate([t[a:b] for a, b in pairwise(ends) for t in totals])
    counts = np.outer([len(nodes) for nodes in owned], lengths)
    nodes, sums = list(chain(*owned)), Sums(shards)
    parts = np.empty((len(nodes), lengths[comm.rank]), sent.dtype)
    table = tuple(counts.ravel().tolist())
    exchange = Call("alltoall", sent.dtype, len(sent), counts=table)
    comm._runner.run_for(NAME, exchange, sent, parts, counted=PART_OF_NEXT)
    for node, part in zip(nodes, parts, strict=True):
        sums.add(node, part)
    found = np.empty(length, sent.dtype)
    each = tuple(lengths.tolist())
    gather = Call("allgather", sent.dtype, each[comm.rank], counts=each)
    comm._runner.run_for(NAME, gather, sums.totals[0], found)
    return found


class Packing:
    """The packing of the contributions of shards into one array for each dtype.

    Parameters
    ----------
    example
        The contribution of the first shard.

    Attributes
    ----------
    dtypes : list
        Those of the arrays.
    first : list of array
        The example, packed.
    """

    def __init__(self, example: Any):
        self._kind = type(example) if isinstance(example, (list, tuple)) else None
        arrays = self._arrays(example)
        self._examples = _parts(example)
        self._shapes = [each.shape for each in arrays]
        self._dtype_of = [each.dtype for each in arrays]
        self.dtypes = list(dict.fromkeys(self._dtype_of))
        self.first = self.packed(example)

    @property
    def form(self) -> str:
        """The shapes and dtypes of the arrays, in words."""
        arrays = zip(self._shapes, self._dtype_of, strict=True)
        return ", ".join(f"{shape} {dtype}" for shape, dtype in arrays)

    def packed(self, contribution: Any) -> list[Numbers]:
        """The contribution of a shard: a new array for each dtype."""
        arrays = self._arrays(contribution)
        form = [each.shape for each in arrays], [each.dtype for each in arrays]
        if form != (self._shapes, self._dtype_of):
            raise ValueError(
                f"sum_shards: a shard has arrays of shapes {form[0]} and dtypes "
                f"{[str(each) for each in form[1]]}, but the first one of this member "
                f"{self._shapes} and {[str(each) for each in self._dtype_of]}; all "
                "must be alike"
            )
        return [
            np.concatenate([each.ravel() for each in arrays if each.dtype == dtype])
            for dtype in self.dtypes
        ]

    def unpacked(self, totals: Sequence[Numbers]) -> Any:
        """The sum, of the kind of a contribution."""
        found = []
        begins = dict.fromkeys(range(len(totals)), 0)
        for shape, dtype, example in zip(
            self._shapes, self._dtype_of, self._examples, strict=True
        ):
            which = self.dtypes.index(dtype)
            begin, end = begins[which], begins[which] + math.prod(shape)
            begins[which] = end
            part = totals[which][begin:end].reshape(shape)
            found.append(_tensor(part, example) if is_tensor(example) else part)
        return found[0] if self._kind is None else self._kind(found)

    @staticmethod
    def _arrays(contribution: Any) -> list[Numbers]:
        return [_array(each) for each in _parts(contribution)]


def _parts(contribution: Any) -> Sequence[Any]:
    """The arrays of a contribution."""
    is_several = isinstance(contribution, (list, tuple))
    return contribution if is_several else [contribution]


def _array(part: Any) -> Numbers:
    """An array of a contribution, in the memory of the host."""
    if not is_tensor(part):
        return plain(part, NAME)
    found = as_array(part.detach(), NAME)
    if isinstance(found, Shadow):
        raise TypeError(
            f"{NAME}: got a tensor on {part.device}; pass one in the memory of the "
            "host: x.cpu()"
        )
    return found


def _tensor(array: Numbers, example: Any) -> Any:
    """The elements of an array as a tensor of the dtype of another."""
    found, elements = result_array(example.detach(), None, array, array.shape, NAME)
    elements[...] = array
    return found
