"""The proof: run a schedule on symbolic values instead of numbers."""

from collections.abc import Sequence
from fractions import Fraction
from math import lcm

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.schedule.replay import Fault, SymbolicReplay
from collalgo.base.distinct import distinct
from collalgo.base.units import counted
from collalgo.errors import ScheduleError
from collalgo.schedule.blame import Origin, origin, overwritten
from collalgo.schedule.chunk import Chunk, in_words, merge
from collalgo.schedule.collective import NOTHING, Collective, Place, Promise
from collalgo.schedule.proof import Proof
from collalgo.schedule.replay import Replay, Tables
from collalgo.schedule.steps import Step
from collalgo.schedule.symbolic import Terms, members
from collalgo.schedule.transfers import Ints, chunk_bounds

#: The most values replayed at a time; more cells are replayed in several passes.
AT_ONCE = 1 << 27

#: The text of each fault of a transfer; a format of its rank, and of the rank that
#: counts twice.
FAULTS: dict[str, str] = {
    "undefined": "sends data that rank {rank} does not have",
    "nothing": "reduces into an undefined chunk",
    "overwritten": "is one of two that overwrite it",
    "unequal": "differs from data that another rank sends into the same chunk",
    "twice": "counts the contribution of rank {twice} twice",
}


class Prover:
    """The symbolic state of all ranks."""

    def __init__(
        self, promise: Collective, schedules: Sequence[Sequence[Step]], root: int
    ):
        self.promise = promise
        self.root = root
        self.size = size = len(schedules)
        self.subject = f"{promise.name} of {counted(size, 'rank')}"
        self.replay = self._replay(schedules)
        self.terms = Terms(size)
        self.blocks = size**promise.blocks
        self.grid = lcm(self.replay.grid, self.blocks)
        bounds = chunk_bounds(self.replay.places, self.grid) | {0, self.grid}
        bounds.update(i * self.grid // self.blocks for i in range(self.blocks))
        self.bounds = np.array(sorted(bounds), object)
        self.block_of = np.array(
            [bound * self.blocks // self.grid for bound in self.bounds[:-1]], np.int64
        )
        self.spare = max((c.spare for p in self.replay.places for c in p), default=0)

    def _replay(self, schedules: Sequence[Sequence[Step]]) -> Replay:
        """The messages in order; an error of them names the collective and its size."""
        try:
            return Replay(schedules)
        except ScheduleError as error:
            raise ScheduleError(
                f"{self.subject}: {error}",
                rank=error.rank,
                fault=error.fault,
                collective=self.promise.name,
            ) from None

    def prove(self) -> Proof:
        """Prove the postcondition, and measure the schedule."""
        used, consistent = self._run()
        if not self.promise.carries_data:
            self._check_all_heard()
        r = self.replay
        sends = r.remote & (r.kind == 0)
        scale = Fraction(self.promise.buffers(self.size), r.grid)
        volume, rounds = self._longest_chain(sends)
        # Long: one line for each field.
        return Proof(
            collective=self.promise.name,
            size=self.size,
            root=self.root,
            steps=int(np.diff(r.first_step).max()),
            rounds=rounds,
            volume=volume * scale,
            sent=self._busiest(sends) * scale,
            reduced=self._busiest(r.kind == 2) * scale,
            links=len(distinct(r.rank_of[r.step[sends]] * self.size + r.peer[sends])),
            roundings=max((self.terms.roundings[term] for term in used), default=0),
            order=self.terms.order(used),
            consistent=consistent,
            spare=self.spare,
            lanes=self._lanes(),
        )

    def _longest_chain(self, sends: NDArray[np.bool_]) -> tuple[int, int]:
        """The bytes, on the grid, and the messages of the longest chains."""
        r = self.replay
        takes = r.remote & (r.kind != 0)
        share = r.share[r.place]
        nbytes = np.maximum(r.total(sends, share), r.total(takes, share))
        messages = np.maximum(self._messages(sends), self._messages(takes))
        both = np.stack([nbytes, messages], axis=1)
        volume, rounds = r.longest(np.zeros_like(both), both)
        return int(volume), int(rounds)

    def _lanes(self) -> int:
        """The most lanes between two ranks, both ways together."""
        r = self.replay
        ends = np.sort(np.stack([r.rank_of[r.step], r.peer]), axis=0)
        lanes = int(r.lane.max(initial=0)) + 1
        used = distinct((ends[0] * self.size + ends[1]) * lanes + r.lane)
        counts = np.unique(used // lanes, return_counts=True)[1]
        return int(counts.max(initial=0))

    def _messages(self, chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
        """For each step, the number of messages of the chosen transfers."""
        r = self.replay
        messages = int(r.message_of.max(initial=0)) + 1
        pairs = distinct(r.step[chosen] * messages + r.message_of[chosen])
        counts = np.bincount(pairs // messages, minlength=len(r.rank_of))
        return counts.astype(np.float64)

    def _busiest(self, chosen: NDArray[np.bool_]) -> int:
        """The bytes of the chosen transfers of the busiest rank, on the grid."""
        r = self.replay
        ranks = r.rank_of[r.step[chosen]]
        return int(np.bincount(ranks, r.share[r.place[chosen]], self.size).max())

    def _run(self) -> tuple[list[int], bool]:
        """Prove the postcondition; the terms of the results, and their consistency."""
        cells = len(self.block_of)
        used: set[int] = set()
        consistent = True
        cell_of = {int(bound): i for i, bound in enumerate(self.bounds)}
        tables = self.replay.tables(cell_of, self.grid)
        width = max(1, AT_ONCE // (self.size * (self.spare + 1)))
        for first in range(0, cells, width):
            last = min(first + width, cells)
            found = self._run_cells(tables, first, last)
            consistent &= self._check_promise(found, first, used)
        return sorted(used), consistent

    def _run_cells(self, tables: Tables, first: int, last: int) -> NDArray[np.int32]:
        cells = last - first
        if (first, last) != (0, len(self.block_of)):
            tables = clipped(tables, first, last)
        values = np.zeros((self.size, cells * (self.spare + 1)), np.int32)
        for rank in range(self.size):
            codes = self._codes(self.promise.before, rank, first, last)
            values[rank, :cells] = codes + 1
        try:
            SymbolicReplay(tables, values, cells, self.terms).run(self.replay.events)
        except Fault as fault:
            what, number, cell = fault.args
            raise self._error(what, number, first + cell) from None
        return values[:, :cells]

    def _codes(self, promise: Promise, rank: int, first: int, last: int) -> Ints:
        place = Place(rank, self.block_of[first:last], self.size, self.root)
        return np.broadcast_to(promise(place), (last - first,))

    def _error(self, fault: str, number: int, cell: int) -> ScheduleError:
        r = self.replay
        if fault == "undefined":  # the number is that of a message
            number = int(np.flatnonzero((r.message_of == number) & (r.kind == 0))[0])
        rank, index = r.where(r.step[number])
        twice = min(members(self.terms.twice), default=rank)
        what = FAULTS[fault].format(rank=rank, twice=twice)
        block = int(self.block_of[cell])
        return ScheduleError(
            f"{self.subject}: step {index} of rank {rank}: "
            f"{r.transfers[number]!r} {what} (in block {block})",
            rank=rank,
            fault=(rank, index),
            collective=self.promise.name,
        )

    def _check_promise(
        self, values: NDArray[np.int32], first: int, used: set[int]
    ) -> bool:
        """Check all results; return whether each block has the same bits everywhere."""
        last = first + values.shape[1]
        alike = np.full((2, values.shape[1]), NOTHING, np.int64)
        consistent = True
        for rank, found in enumerate(values):
            codes = self._codes(self.promise.after, rank, first, last)
            wanted = codes != NOTHING
            single = wanted & (codes < self.size)
            for cell in np.flatnonzero(single & (found != codes + 1))[:1].tolist():
                raise self._broken(
                    rank, first + cell, int(found[cell]), int(codes[cell])
                )
            used |= self._check_sums(rank, found, codes, wanted & ~single, first)
            known = wanted & (alike[0] == codes)
            consistent &= bool((alike[1][known] == found[known]).all())
            alike[:, wanted] = codes[wanted], found[wanted]
        return consistent

    def _check_sums(
        self,
        rank: int,
        found: NDArray[np.int32],
        codes: Ints,
        sums: NDArray[np.bool_],
        first: int,
    ) -> set[int]:
        """Check the cells of a rank that are to hold sums; return their terms."""
        used: set[int] = set()
        keys = found * np.int64(2 * self.size) + codes
        for key in distinct(keys[sums]).tolist():
            term, code = divmod(key, 2 * self.size)
            used.add(term)
            if self.terms.ranks[term] != self._ranks(code):
                cell = int(np.flatnonzero(sums & (keys == key))[0])
                raise self._broken(rank, first + cell, term, code)
        return used

    def _ranks(self, code: int) -> int:
        """The ranks of a code, as a bit mask."""
        return 1 << code if code < self.size else (2 << (code - self.size)) - 1

    def _broken(self, rank: int, cell: int, term: int, code: int) -> ScheduleError:
        found, wanted = self.terms.ranks[term], self._ranks(code)
        steps = int(np.diff(self.replay.first_step)[rank])
        made, by = self._culprit(rank, cell, found, wanted)
        return ScheduleError(
            f"{self.subject}: rank {rank} ends, after {counted(steps, 'step')}, with "
            f"{self._name(cell, made)} made of the contributions "
            f"of ranks {members(found)} instead of ranks {members(wanted)}; {by}",
            rank=rank,
            fault=None if made is None else (made.rank, made.step),
            collective=self.promise.name,
        )

    def _culprit(
        self, rank: int, cell: int, found: int, wanted: int
    ) -> tuple[Origin | None, str]:
        """The step that made a wrong result, and its action in words."""
        lost = sorted(set(members(wanted)) - set(members(found)))
        replay, place = self.replay, (int(self.bounds[cell]), self.grid)
        verb = "overwrites the contribution of that rank"
        made = overwritten(replay, replay.events, lost, *place)
        if made is None:
            verb = "has made it"
            made = origin(replay, replay.events, rank, *place)
        if made is None:
            return None, "it was never written"
        return made, f"step {made.step} of rank {made.rank} {verb}: {made.transfer!r}"

    def _name(self, cell: int, made: Origin | None) -> str:
        """The name of a cell for users: its block, or its chunk, as its step cuts."""
        if self.promise.blocks:
            return f"chunk {self.block_of[cell]}"
        start, stop = map(int, self.bounds[cell : cell + 2])
        chunks = made.transfer.chunks if made else ()
        cut = max((chunk.parts for chunk in chunks), default=1)
        if start * cut % self.grid or stop * cut % self.grid:
            return in_words(merge([Chunk(start, stop, self.grid)]))
        if cut == 1:
            return "the whole buffer"
        first, last = start * cut // self.grid, stop * cut // self.grid
        return in_words([Chunk(first, last, cut)])

    def _check_all_heard(self) -> None:
        """Check a barrier: every rank must hear, directly or not, from every other."""
        r = self.replay
        everyone = (1 << self.size) - 1
        heard = [1 << rank for rank in range(self.size)]
        told: dict[int, int] = {}
        first, incoming = r.incoming
        for event in r.events.tolist():
            step, ended = divmod(event, 2)
            rank = int(r.rank_of[step])
            if not ended:
                told[step] = heard[rank]
                continue
            for message in incoming[first[step] : first[step + 1]]:
                heard[rank] |= told[int(r.out[message])]
        for rank, ranks in enumerate(heard):
            if ranks != everyone:
                raise ScheduleError(
                    f"{self.subject}: rank {rank} ends "
                    f"without a message path from ranks {members(everyone & ~ranks)}",
                    rank=rank,
                )


def clipped(tables: Tables, first: int, last: int) -> Tables:
    """The tables with only the cells from ``first`` up to ``last``, counted from 0."""
    start = np.clip(tables["start"], first, last) - first
    stop = np.clip(tables["stop"], first, last) - first
    return {**tables, "start": start, "stop": stop}
