"""Sums over logical shards whose bits do not depend on the assignment of shards.

Floating-point addition is not associative, so the order of the additions is fixed: a
binary tree over the shards. A member computes neighbouring shards, and adds what the
tree adds of them. Then each member gets a part of the elements of all these sums, adds
what the tree adds of the sums of different members, and all gather the parts.
"""

from collections.abc import Callable
from typing import Any

from collalgo._kernels.elastic.sums import add_shards
from collalgo.base.integers import integer
from collalgo.base.units import counted
from collalgo.comm.communicator import Communicator
from collalgo.elastic.arguments import check_function, communicator
from collalgo.elastic.contributions import NAME
from collalgo.elastic.shard_plan import sums_of
from collalgo.elastic.tree_sums import share


def sum_shards(comm: Communicator, shards: int, of: Callable[[int], Any]) -> Any:
    """The sum of ``of(0)`` to ``of(shards - 1)``, with the same bits for any members.

    All members call it. Each computes a share of the shards, so a batch that is divided
    into a fixed number of them gives the same result for any members. Only the sign and
    the payload of a NaN may differ.

    Parameters
    ----------
    comm
        The communicator of the present members.
    shards
        The number of shards, at least one for each member; a multiple of the usual
        number of members shares the work evenly, and a power of two sends least.
    of
        Computes the contribution of a shard from its number: an array of numbers, a
        tensor of torch in the memory of the host, a number, or a list or tuple of
        them, of any dtypes; no dictionaries. Those of all shards have the same shapes
        and dtypes, and must depend on the number alone.

    Returns
    -------
    array, list or tuple
        The sum, of the kind that ``of`` returns.

    Raises
    ------
    ValueError
        If there are fewer shards than members, or those of a member have different
        shapes or dtypes.
    TypeError
        If ``of`` returns something else than numbers, as texts, objects or a dict.
    MismatchError
        On all members, if they pass other numbers of shards, or contributions of
        other shapes or dtypes. In the first sum of a form it is a ValueError, too.

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
    comm, shards = communicator(comm, NAME), integer(shards, "shards", NAME, 1)
    check_function(of, NAME)
    if shards < comm.size:
        raise ValueError(
            f"sum_shards: {counted(shards, 'shard')} for {comm.size} members; divide "
            "the batch into at least as many"
        )
    numbers = share(shards, comm.rank, comm.size)
    example = of(numbers[0])
    shared = sums_of(comm)
    contributions, exchanges = shared.plan(comm, shards, example)
    memory = shared.take_memory()
    sums = [each.new_sums(memory) for each in exchanges]
    add_shards(sums, numbers, of, example, contributions.by_dtype)
    pairs = zip(exchanges, sums, strict=True)
    totals = [each.total(comm, own.totals, memory) for each, own in pairs]
    shared.end(memory)
    return contributions.unpacked(totals)
