"""Replay the schedules of all ranks together, in a possible order of execution.

The rules are the strictest that an engine could follow: a step ends only when every
peer of its transfers has reached the matching step, as if messages had no buffers. A
schedule that ends here cannot deadlock with bounded buffers, however small.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo._kernels.schedule.order import critical_path, in_order
from collalgo.errors import ScheduleError
from collalgo.schedule.blame import first_mismatch
from collalgo.schedule.chunk import Chunks
from collalgo.schedule.steps import Step
from collalgo.schedule.transfers import Ints, Reals, TransferTable

Tables = dict[str, Any]


class Replay(TransferTable):
    """The transfers of all ranks, matched as messages and put in order.

    A message is all that one step sends to one peer on one lane.

    Attributes
    ----------
    out, into : ndarray
        The step that sends each message and the one that receives it.
    sent, taken : ndarray
        The places of each message at both of its ends.
    events : ndarray
        Twice the number of a step as its rank enters it, and one more as it ends.

    Raises
    ------
    ScheduleError
        For a transfer without partner or with a rank that does not exist, for ends of
        a message that differ, or if ranks wait for each other in a cycle (a deadlock).
    """

    def __init__(self, schedules: Sequence[Sequence[Step]]):
        super().__init__(schedules)
        self._match()
        self._order()

    def _match(self) -> None:
        """Pair every send with its receive."""
        sending = self.kind == 0
        (out, sends, out_of), (into, takes, into_of) = map(
            self._messages_of, (sending, ~sending)
        )
        if out.shape != into.shape or (out[:3] != into[:3]).any():
            raise first_mismatch(self)
        self.out, self.into = (
            np.ascontiguousarray(out[3]),
            np.ascontiguousarray(into[3]),
        )
        self.message_of = np.empty(len(self.transfers), np.int64)
        self.message_of[sends], self.message_of[takes] = out_of, into_of
        self.sent = self._whole_places(sends, out_of)
        self.taken = self._whole_places(takes, into_of)
        self._check_same_chunks()

    def _messages_of(self, side: NDArray[np.bool_]) -> tuple[Ints, Ints, Ints]:
        """The messages of the sends or of the receives, in the order of channels.

        Returns the sender, receiver, lane and step of each message, the transfers in
        their order, and the number of the message of each transfer.
        """
        chosen = np.flatnonzero(side)
        rank = self.rank_of[self.step]
        sending = self.kind == 0
        sender = np.where(sending, rank, self.peer)
        receiver = np.where(sending, self.peer, rank)
        keys = (sender, receiver, self.lane, self.step)
        order = chosen[np.lexsort([key[chosen] for key in reversed(keys)])]
        table = np.stack([key[order] for key in keys])
        fresh = np.ones(len(order), bool)
        fresh[1:] = (table[:, 1:] != table[:, :-1]).any(axis=0)
        return table[:, fresh], order, np.cumsum(fresh) - 1

    def _whole_places(self, transfers: Ints, message_of: Ints) -> Ints:
        """The place of each message: the union of those of its transfers."""
        places = self.place[transfers]
        first = np.flatnonzero(np.diff(message_of, prepend=-1))
        counts = np.diff(first, append=len(transfers))
        whole = places[first]
        joined: dict[tuple[int, ...], int] = {}
        for message in np.flatnonzero(counts > 1).tolist():
            parts = tuple(places[first[message] : first[message] + counts[message]])
            if parts not in joined:
                chunks = chain.from_iterable(self.places[part] for part in parts)
                joined[parts] = self._place(tuple(chunks))
            whole[message] = joined[parts]
        return whole

    def _check_same_chunks(self) -> None:
        """Check that both ends of a message have the same chunks, in any buffers."""
        plain: dict[Chunks, int] = {}
        same = np.array(
            [
                plain.setdefault(tuple(c._replace(spare=0) for c in chunks), number)
                for number, chunks in enumerate(self.places)
            ],
            np.int64,
        )
        if (same[self.sent] != same[self.taken]).any():
            raise first_mismatch(self)

    @cached_property
    def incoming(self) -> tuple[Ints, Ints]:
        """The messages that each step receives."""
        return self.by_step(self.into)

    def _order(self) -> None:
        first, order = self.by_step(np.concatenate([self.out, self.into]))
        messages = order % len(self.out) if len(self.out) else order
        self.events, at = in_order(
            self.first_step, first, messages, self.out, self.into
        )
        stuck = np.flatnonzero(at < self.first_step[1:])
        if len(stuck):
            raise self._circle(at, int(stuck[0]))

    def _circle(self, at: Ints, rank: int) -> ScheduleError:
        circle: list[int] = []
        while rank not in circle:
            circle.append(rank)
            rank = self._awaited(at, rank)
        circle = [*circle[circle.index(rank) :], rank]
        waits = "; ".join(
            f"step {self.where(at[a])[1]} of rank {a} "
            f"({self._step(at[a])!r}) waits for rank {b}"
            for a, b in pairwise(circle)
        )
        return ScheduleError(
            f"deadlock: the ranks wait for each other in a cycle: {waits}",
            rank=rank,
            fault=self.where(at[rank]),
        )

    def _step(self, step: int) -> Step:
        rank, index = self.where(step)
        return self.schedules[rank][index]

    def _awaited(self, at: Ints, rank: int) -> int:
        """A rank that has not reached the step that matches that of ``rank``."""
        for here, there in ((self.out, self.into), (self.into, self.out)):
            for step in there[here == at[rank]].tolist():
                other, _ = self.where(step)
                if at[other] < step or other == rank:
                    return other
        raise AssertionError(f"rank {rank} does not wait")

    def longest(self, sending: Reals, receiving: Reals, latency: float = 0.0) -> Reals:
        """The longest path through all ranks, for each column of the weights."""
        ended = critical_path(
            self.events,
            self.rank_of,
            *self.incoming,
            self.out,
            np.ascontiguousarray(sending),
            np.ascontiguousarray(receiving),
            latency,
            self.size,
        )
        longest: Reals = ended.max(axis=0)
        return longest

    def tables(self, cell_of: dict[int, int], grid: int) -> Tables:
        """The tables of :class:`collalgo._kernels.schedule.replay.SymbolicReplay`.

        Parameters
        ----------
        cell_of
            The number of the cell that begins at each point of the grid.
        grid
            The number of equal parts of the buffer that the keys count.
        """
        taking = np.flatnonzero(self.kind != 0)
        taking = taking[np.argsort(self.peer[taking], kind="stable")]
        first_taking, order = self.by_step(self.step[taking])
        start, stop = self._runs(cell_of, grid)
        return {
            "rank_of": self.rank_of,
            "outgoing": self.by_step(self.out),
            "incoming": self.incoming,
            "taking": (first_taking, taking[order]),
            "sent_place": self.sent,
            "message_of": self.message_of,
            "peer": self.peer,
            "place": self.place,
            "reduces": (self.kind == 2).astype(np.int64),
            "first_run": np.cumsum([0, *map(len, self.places)]),
            "bank": np.array([p[0].spare if p else 0 for p in self.places], np.int64),
            "start": start,
            "stop": stop,
        }

    def _runs(self, cell_of: dict[int, int], grid: int) -> Ints:
        """The first cell of each chunk of all places, and the cell after its last."""
        runs = [
            (cell_of[c.start * (grid // c.parts)], cell_of[c.stop * (grid // c.parts)])
            for place in self.places
            for c in place
        ]
        found: Ints = np.array(runs, np.int64).reshape(-1, 2).T.copy()
        return found
