"""The proof itself: run a schedule on symbols instead of numbers.

A value is the set of ranks that contributed to it, and a term: the order in which they
were combined. Equal terms are equal to the last bit.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import lcm
from typing import NamedTuple

from collalgo.collective import NOTHING, Collective, Place
from collalgo.errors import ScheduleError
from collalgo.replay import Channel, Played, replay
from collalgo.schedule import Chunk, Chunks, Kind, Step, Transfer, merge


@dataclass(frozen=True)
class Proof:
    """What the proof of a schedule found.

    Attributes
    ----------
    steps
        The largest number of steps of a rank.
    volume
        Bytes that pass one after the other, in buffers, where a rank sends and receives
        at once but does either with one peer at a time.
    links
        The number of ordered pairs of ranks between which messages travel.
    consistent
        Whether the same block has the same bits wherever it ends, because the same
        contributions were combined in the same order.
    """

    collective: str
    size: int
    root: int
    steps: int
    volume: Fraction
    links: int
    consistent: bool

    def __str__(self) -> str:
        same = "same bits on every rank" if self.consistent else "bits may differ"
        steps = f"{self.steps} step{'s' if self.steps != 1 else ''}"
        return (
            f"{self.collective} of {self.size} ranks: {steps}, {self.volume} n bytes, "
            f"{self.links} links, {same}"
        )


class Value(NamedTuple):
    """Contributions as a bit mask, and the number of the term that combined them."""

    ranks: int
    term: int


class Prover:
    """The symbolic state of all ranks."""

    def __init__(
        self, promise: Collective, schedules: Sequence[Sequence[Step]], root: int
    ):
        self.promise = promise
        self.schedules = schedules
        self.size = size = len(schedules)
        self.root = root
        chunks = [c for steps in schedules for s in steps for t in s for c in t.chunks]
        self.grid = reduce(lcm, {c.parts for c in chunks}, size)
        bounds = {i * self.grid // size for i in range(size + 1)}
        bounds.update(self._place(c)[0] for c in chunks)
        bounds.update(self._place(c)[1] for c in chunks)
        self.bounds = sorted(bounds)
        self.terms: dict[tuple[int, ...], int] = {}
        self.state = [
            [self._initial(rank, cell) for cell in range(len(self.bounds) - 1)]
            for rank in range(size)
        ]
        self.clock = [0] * size
        self.entered: dict[tuple[int, int], int] = {}
        self.heard = [1 << rank for rank in range(size)]
        self.flying: dict[tuple[Channel, int], tuple[int, dict[int, Value | None]]] = {}

    def _place(self, chunk: Chunk) -> tuple[int, int]:
        unit = self.grid // chunk.parts
        return chunk.start * unit, chunk.stop * unit

    def _block(self, cell: int) -> int:
        return self.bounds[cell] * self.size // self.grid

    def _cells(self, chunks: Sequence[Chunk]) -> list[int]:
        spans = (self._place(chunk) for chunk in chunks)
        return [
            cell
            for start, stop in spans
            for cell in range(
                bisect_left(self.bounds, start), bisect_left(self.bounds, stop)
            )
        ]

    def _initial(self, rank: int, cell: int) -> Value | None:
        ranks = self.promise.before(
            Place(rank, self._block(cell), self.size, self.root)
        )
        return Value(ranks, self._term(-1, rank)) if ranks else None

    def _term(self, *operands: int) -> int:
        return self.terms.setdefault(operands, len(self.terms))

    def prove(self) -> Proof:
        for ended, played in replay(self.schedules):
            if ended:
                self._receive(played)
                self._pass(played)
            else:
                self._send(played)
        self._check_promise()
        return Proof(
            self.promise.name,
            self.size,
            self.root,
            max(map(len, self.schedules)),
            Fraction(max(self.clock), self.grid),
            len({(r, t.peer) for r, t in self._transfers() if t.kind is Kind.SEND}),
            self._consistent(),
        )

    def _transfers(self) -> list[tuple[int, Transfer]]:
        return [
            (r, t) for r, steps in enumerate(self.schedules) for s in steps for t in s
        ]

    def _send(self, played: Played) -> None:
        """Put what leaves on its way, as it is before anything of the step comes."""
        rank = played.rank
        self.entered[rank, played.number] = self.clock[rank]
        leaving: dict[Channel, dict[int, Value | None]] = defaultdict(dict)
        for transfer in played.step:
            if transfer.kind is Kind.SEND:
                channel = Channel(rank, transfer.peer, transfer.lane)
                for cell in self._cells(transfer.chunks):
                    leaving[channel][cell] = self.state[rank][cell]
                    if self.state[rank][cell] is None:
                        fault = f"sends what rank {rank} does not have"
                        raise self._error(played, transfer, cell, fault)
        for message in played.sends:
            cells = leaving[message.channel]
            self.flying[message.channel, message.sent_in] = self.heard[rank], cells

    def _receive(self, played: Played) -> None:
        rank = played.rank
        messages = {
            (m.channel.sender, m.channel.lane): self.flying.pop((m.channel, m.sent_in))
            for m in played.receives
        }
        for heard, _ in messages.values():
            self.heard[rank] |= heard
        coming: dict[int, list[tuple[Transfer, Value]]] = {}
        for transfer in played.step:
            if transfer.kind is not Kind.SEND:
                _, cells = messages[transfer.peer, transfer.lane]
                for cell in self._cells(transfer.chunks):
                    value = cells[cell]
                    assert value is not None
                    coming.setdefault(cell, []).append((transfer, value))
        for cell, arrivals in coming.items():
            self.state[rank][cell] = self._combined(played, cell, arrivals)

    def _combined(
        self, played: Played, cell: int, arrivals: list[tuple[Transfer, Value]]
    ) -> Value:
        """Reduce what arrives in the order of the ranks, my own value in its place."""
        first = arrivals[0][0]
        if len(arrivals) > 1 and any(t.kind is Kind.RECV for t, _ in arrivals):
            raise self._error(played, first, cell, "is one of two that overwrite it")
        if len({_from(played, transfer) for transfer, _ in arrivals}) > 1:
            raise self._error(
                played,
                first,
                cell,
                "meets what comes from another rank, which is not all equal to it",
            )
        if first.kind is Kind.RECV:
            return arrivals[0][1]
        own = self.state[played.rank][cell]
        if own is None:
            raise self._error(played, first, cell, "reduces into an undefined chunk")
        operands = sorted([(t.peer, v) for t, v in arrivals] + [(played.rank, own)])
        total = operands[0][1]
        for peer, value in operands[1:]:
            if twice := total.ranks & value.ranks:
                raise self._error(
                    played,
                    next((t for t, _ in arrivals if t.peer == peer), first),
                    cell,
                    f"counts the contribution of rank {_ranks(twice)[0]} twice",
                )
            term = self._term(*sorted((total.term, value.term)))
            total = Value(total.ranks | value.ranks, term)
        return total

    def _error(
        self, played: Played, transfer: Transfer, cell: int, fault: str
    ) -> ScheduleError:
        return ScheduleError(
            f"{self.promise.name} of {self.size} ranks: step {played.number} of rank "
            f"{played.rank}: {transfer!r} {fault} (in block {self._block(cell)})",
            rank=played.rank,
            collective=self.promise.name,
        )

    def _check_promise(self) -> None:
        everyone = (1 << self.size) - 1
        for rank, cells in enumerate(self.state):
            for cell, value in enumerate(cells):
                place = Place(rank, self._block(cell), self.size, self.root)
                if wanted := self.promise.after(place):
                    self._check_value(place, value.ranks if value else NOTHING, wanted)
            if not self.promise.carries_data and self.heard[rank] != everyone:
                silent = _ranks(everyone & ~self.heard[rank])
                raise ScheduleError(
                    f"{self.promise.name} of {self.size} ranks: rank {rank} ends "
                    f"without having heard from ranks {silent}",
                    rank=rank,
                )

    def _check_value(self, place: Place, found: int, wanted: int) -> None:
        if found == wanted:
            return
        steps = len(self.schedules[place.rank])
        raise ScheduleError(
            f"{self.promise.name} of {self.size} ranks: rank {place.rank} ends, after "
            f"{steps} steps, with chunk {place.block} made of the contributions of "
            f"ranks {_ranks(found)} instead of ranks {_ranks(wanted)}",
            rank=place.rank,
            collective=self.promise.name,
        )

    def _pass(self, played: Played) -> None:
        """Let the time go by that a step takes if only bytes take time."""
        began = max(
            self.clock[played.rank],
            *(self.entered[m.channel.sender, m.sent_in] for m in played.receives),
            0,
        )
        out, into = 0, 0
        for transfer in played.step:
            spans = [self._place(chunk) for chunk in transfer.chunks]
            nbytes = sum(stop - start for start, stop in spans)
            if transfer.kind is Kind.SEND:
                out += nbytes
            else:
                into += nbytes
        self.clock[played.rank] = began + max(out, into)

    def _consistent(self) -> bool:
        after = self.promise.after
        for cell in range(len(self.bounds) - 1):
            places = (
                Place(rank, self._block(cell), self.size, self.root)
                for rank in range(self.size)
            )
            terms = {self.state[p.rank][cell] for p in places if after(p)}
            if len(terms) > 1:
                return False
        return True


def _from(played: Played, transfer: Transfer) -> Chunks:
    """All that comes in a step on the channel of one of its transfers."""
    channel = transfer.peer, transfer.lane
    return merge(
        chunk
        for other in played.step
        if other.kind is not Kind.SEND and (other.peer, other.lane) == channel
        for chunk in other.chunks
    )


def _ranks(mask: int) -> list[int]:
    return [rank for rank in range(mask.bit_length()) if mask >> rank & 1]
