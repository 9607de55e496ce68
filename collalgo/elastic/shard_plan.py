"""What sums over shards of the same form share: their exchanges, and their memory."""

from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from itertools import chain, pairwise
from typing import Any

import numpy as np

from collalgo._kernels.elastic.sums import Sums
from collalgo._kernels.engine.transport.transport import PART_OF_NEXT
from collalgo.base.cache import recalled
from collalgo.comm.communicator import Communicator
from collalgo.comm.repeated_call import RepeatedCall
from collalgo.elastic.boundary import ELEMENTS, Boundary
from collalgo.elastic.contributions import NAME, Contributions, Form
from collalgo.elastic.sum_memory import Memory, Results
from collalgo.elastic.tree_sums import (
    ADDED_ALIKE,
    Numbers,
    merged,
    nodes_of,
    shards_of,
)
from collalgo.engine.call import Call
from collalgo.engine.reduction import reduction
from collalgo.errors import MismatchError

#: Bytes of the digest of a form, and of the length of its description.
DIGEST_BYTES, LENGTH_BYTES = 16, 8

#: Characters of a description in an error, at most.
MOST_CHARACTERS = 200

#: The name of a sum whose form is another than those before.
ANOTHER = f"{NAME} of another form"


class FormsDiffer(MismatchError, ValueError):
    """Members passed other numbers of shards, or contributions of other forms."""


class Exchanges:
    """The exchanges that add the sums of all members, for one dtype.

    Parameters
    ----------
    comm
        The communicator.
    shards
        The number of shards.
    length
        The number of elements of a sum.
    dtype
        Their dtype.
    name
        The name of the exchanges, another one for each form: ranks compare it.
    results
        The memory of results.
    boundary
        Has flags of the members, which are further elements of the sums, if any.
    """

    def __init__(
        self,
        comm: Communicator,
        shards: int,
        length: int,
        dtype: np.dtype[Any],
        name: str,
        results: Results,
        boundary: Boundary | None = None,
    ):
        self._boundary = boundary
        self._own_length = length
        length += ELEMENTS if boundary is not None else 0
        self._length, self._dtype = length, dtype
        self._results = results
        owned = [nodes_of(shards, rank, comm.size) for rank in range(comm.size)]
        nodes = list(chain(*owned))
        self._own_merges = merged(shards, shards_of(shards, comm.rank, comm.size))[0]
        self._count, (self._merges, _) = len(nodes), merged(shards, nodes)
        added_alike = dtype.isnative and dtype.char in ADDED_ALIKE
        self._reduction = reduction(dtype, "sum") if added_alike else None
        is_direct = self._count == 2 and added_alike
        self._is_in_place = is_direct or comm.size == 1
        both = Call("allreduce", dtype, length, "sum", reproducible=True)
        self._both = RepeatedCall(name, both)
        self._set_parts(comm, name, [len(nodes) for nodes in owned])

    def _set_parts(self, comm: Communicator, name: str, owned: Sequence[int]) -> None:
        """The part of the elements that each member adds of the sums of all."""
        length, dtype = self._length, self._dtype
        self._ends = [length * rank // comm.size for rank in range(comm.size + 1)]
        lengths = np.diff(self._ends)
        table = tuple(np.outer(owned, lengths).ravel().tolist())
        each = tuple(lengths.tolist())
        self._sent, self._part = owned[comm.rank] * length, each[comm.rank]
        scatter = Call("alltoall", dtype, self._sent, counts=table)
        gather = Call("allgather", dtype, self._part, counts=each)
        self._scatter = RepeatedCall(name, scatter, PART_OF_NEXT)
        self._gather = RepeatedCall(name, gather)

    def new_sums(self, memory: Memory) -> Sums:
        """The sums of the shards of this member, before the first is added."""
        new_total = partial(self._new_total, memory)
        return Sums(self._own_merges, self._own_length, self._reduction, new_total)

    def _new_total(self, memory: Memory, number: int) -> Numbers:
        """An array for a sum of this member; the first one may become the result."""
        if self._is_in_place and not number:
            return self._results.take(self._length, self._dtype)
        return memory.array(self._length, self._dtype)

    def total(
        self, comm: Communicator, totals: Sequence[Numbers], memory: Memory
    ) -> Numbers:
        """The sum over all members, in an array of its own."""
        if self._boundary is not None:
            self._write_flags(self._boundary, totals)
        found = totals[0]
        if not self._is_in_place:
            found = self._by_parts(comm, totals, memory)
        elif comm.size > 1:
            self._both.run(comm._runner, found, found)
        if self._boundary is None:
            return found
        self._boundary.read_flags(found[self._own_length :])
        return found[: self._own_length]

    def _write_flags(self, boundary: Boundary, totals: Sequence[Numbers]) -> None:
        """Write the flags of this member after the first of its sums."""
        first, *others = totals
        boundary.write_flags(first[self._own_length :])
        for each in others:
            each[self._own_length :] = 0

    def _by_parts(
        self, comm: Communicator, totals: Sequence[Numbers], memory: Memory
    ) -> Numbers:
        """Each member adds a part of the elements of all sums, and all gather them."""
        sent, runner = totals[0], comm._runner
        if len(totals) > 1:
            sent = memory.array(self._sent, self._dtype)
            pieces = [t[a:b] for a, b in pairwise(self._ends) for t in totals]
            np.concatenate(pieces, out=sent)
        parts = memory.array(self._count * self._part, self._dtype)
        self._scatter.run(runner, sent, parts)
        sums = Sums(self._merges, self._part, self._reduction)
        for row in parts.reshape(self._count, self._part):
            sums.add(row)
        found = self._results.take(self._length, self._dtype)
        self._gather.run(runner, sums.totals[0], found)
        return found


class ShardSums:
    """What the sums of one communicator share.

    Parameters
    ----------
    comm
        The communicator.
    boundary
        Has flags of the members, which they exchange until a commit, if any.
    """

    def __init__(self, comm: Communicator, boundary: Boundary | None = None) -> None:
        self._boundary, self._allocate = boundary, comm.heap.empty
        self._exchanges: dict[tuple[int, Form], list[Exchanges]] = {}
        self._forms = 0
        self._last: tuple[int, Contributions, list[Exchanges]] | None = None
        self._memory: list[Memory] = [Memory(comm.heap.empty)]
        self._results = Results()

    def plan(
        self, comm: Communicator, shards: int, example: Any
    ) -> tuple[Contributions, list[Exchanges]]:
        """The form of the contributions, and the exchanges for each of its dtypes.

        The first time members compare their forms.

        Raises
        ------
        FormsDiffer
            On every member, if one has another form or another number of shards.
        """
        last = self._last  # of the sum before, which mostly had this form
        if last is not None and last[0] == shards and last[1].is_alike(example):
            return last[1:]
        found = Contributions(example)
        exchanges = self._exchanges_of(comm, shards, found)
        if found.is_alike(example):  # of others it keeps the arrays of the example
            self._last = shards, found, exchanges
        return found, exchanges

    def _exchanges_of(
        self, comm: Communicator, shards: int, contributions: Contributions
    ) -> list[Exchanges]:
        """The exchanges for each dtype."""

        def make(_: object) -> list[Exchanges]:
            name = ANOTHER if self._exchanges else NAME
            _check_alike(comm, f"{shards} shards of {contributions.description}", name)
            self._forms += 1
            of_form = NAME if self._forms == 1 else f"{NAME} (form {self._forms})"
            lengths = contributions.lengths
            flags = self._flags_in(lengths)
            return [
                Exchanges(comm, shards, n, d, of_form, self._results, flags.get(d))
                for d, n in lengths.items()
            ]

        return recalled(self._exchanges, (shards, contributions.form), make)

    def _flags_in(
        self, dtypes: Iterable[np.dtype[Any]]
    ) -> dict[np.dtype[Any], Boundary]:
        """The dtype whose sum has the flags of the members, the first that can."""
        boundary = self._boundary
        if boundary is None:
            return {}
        return dict.fromkeys([d for d in dtypes if boundary.fits(d)][:1], boundary)

    def end(self, memory: Memory) -> None:
        """End a sum, after all of its exchanges: the next one has its memory."""
        memory.reuse()
        self._memory[:] = [memory]
        if self._boundary is not None:
            self._boundary.use_prices()

    def take_memory(self) -> Memory:
        """The memory, until it is given back; another one if it was taken."""
        return self._memory.pop() if self._memory else Memory(self._allocate)


def sums_of(comm: Communicator, boundary: Boundary | None = None) -> ShardSums:
    """What the sums of a communicator share; all ranks give the first a boundary."""
    kept = comm._runner.kept
    found: ShardSums | None = kept.get(ShardSums)
    if found is None:
        found = kept.setdefault(ShardSums, ShardSums(comm, boundary))
    return found


def _check_alike(comm: Communicator, mine: str, name: str) -> None:
    """Check that the first contributions of all members have the same form.

    The members compare the name, too.
    """
    text = mine.encode()
    length = len(text).to_bytes(LENGTH_BYTES, "little")
    digest = blake2b(text, digest_size=DIGEST_BYTES).digest() + length
    everyone = comm._runner.exchange(np.frombuffer(digest, np.uint8).copy(), name)
    differing = np.flatnonzero((everyone != everyone[0]).any(axis=1))
    if len(differing):
        lengths = everyone[:, DIGEST_BYTES:].copy().view("<u8")
        padded = np.zeros(int(lengths.max()), np.uint8)
        padded[: len(text)] = np.frombuffer(text, np.uint8)
        rows = comm._runner.exchange(padded, name)
        raise _mismatch(comm, rows, int(differing[0]))


def _mismatch(comm: Communicator, rows: Numbers, other: int) -> FormsDiffer:
    """The error of all members if one passes another form than rank 0."""
    texts = [rows[rank].tobytes().rstrip(b"\0").decode() for rank in (0, other)]
    pairs = enumerate(zip(*texts, strict=False))
    first = next((place for place, (one, two) in pairs if one != two), 0)
    begin = max(first - MOST_CHARACTERS // 2, 0)
    if max(map(len, texts)) <= MOST_CHARACTERS:
        begin = 0
    ours, theirs = [_part(text, begin) for text in texts]
    return FormsDiffer(
        f"{NAME}: rank 0 passed {ours}, but rank {other} passed {theirs}; all members "
        "must pass as many shards, and arrays of the same shapes and dtypes",
        rank=comm.rank,
        missing=(other,),
    )


def _part(text: str, begin: int) -> str:
    """Some characters of a text."""
    end = begin + MOST_CHARACTERS
    return f"{'... ' * (begin > 0)}{text[begin:end]}{' ...' * (len(text) > end)}"
