"""The communicator: ranks that make the same calls in the same order."""

import math
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo.arrays import (
    Array,
    as_array,
    check_counts,
    check_output,
    check_overlap,
    length,
    result_array,
    row_size,
)
from collalgo.connection import Connection, default_timeout, seconds
from collalgo.programs import AlgorithmChoice, Programs
from collalgo.runner import Runner
from collalgo.select import Selection, select

_NO_DTYPE = np.dtype(np.uint8)


class Communicator:
    """Some ranks and their calls.

    Made by :func:`collalgo.init`, :func:`collalgo.spawn` or :func:`collalgo.threads`,
    not directly. All its ranks make the same calls in the same order; that is checked,
    and what is found wrong is raised on every rank. After such an error, as after a
    timeout or the death of a rank, the communicator cannot be used any more.

    Attributes
    ----------
    rank, size : int
        Which of how many ranks this is.
    """

    def __init__(self, connection: Connection, timeout: float | None = None):
        transport = connection.transport
        self.rank: int = transport.rank
        self.size: int = transport.size
        self._connection = connection
        self._programs = Programs(self.rank, self.size, connection.machine)
        self._get = self._programs.get
        self._groups: dict[tuple[int, ...], int] = {}
        weakref.finalize(self, connection.release)
        waiting = default_timeout() if timeout is None else timeout
        self._runner = Runner(connection, seconds(waiting))
        self._run = self._runner.run

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<Communicator{state} rank {self.rank} of {self.size}>"

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for the other ranks before it raises."""
        return math.inf if self._runner.seconds < 0 else self._runner.seconds

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self._runner.seconds = seconds(timeout)

    @property
    def closed(self) -> bool:
        return self._connection.transport.closed

    @property
    def forked(self) -> bool:
        """Whether this process is a child forked after the communicator was made."""
        return self._connection.transport.forked

    def close(self) -> None:
        """Leave the communicator and release its memory; closing twice is allowed."""
        self._connection.release()

    def abort(self, reason: str) -> None:
        """Close because of an error: calls of the others raise PeerFailed with it."""
        self._connection.abort(reason)

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def allreduce(
        self,
        buf: Any,
        op: Any = "sum",
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of all ranks, element by element; see the function."""
        source = as_array(buf, "allreduce")
        if out is None:
            target = source
        else:
            target = as_array(out, "allreduce")
            check_output(target, source, source.shape, "allreduce")
            check_overlap(source, target, (source, target), "allreduce")
        program = self._get(
            "allreduce", source.dtype, source.size, op, 0, algorithm, None
        )
        self._run(program, source, target, timeout, "allreduce")
        return buf if out is None else out

    def broadcast(
        self,
        buf: Any,
        root: int = 0,
        *,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Give every rank the array of the root, in place; see the function."""
        source = as_array(buf, "broadcast")
        program = self._get(
            "broadcast", source.dtype, source.size, None, root, algorithm, None
        )
        target = None if self.rank == root else source
        self._run(program, source, target, timeout, "broadcast")
        return buf

    def reduce(
        self,
        buf: Any,
        op: Any = "sum",
        root: int = 0,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of all ranks at the root; see the function."""
        source = as_array(buf, "reduce")
        target: Array | None = source
        if self.rank != root:
            target = None
        elif out is not None:
            target = as_array(out, "reduce")
            check_output(target, source, source.shape, "reduce")
            check_overlap(source, target, (source, target), "reduce")
        program = self._get(
            "reduce", source.dtype, source.size, op, root, algorithm, None
        )
        self._run(program, source, target, timeout, "reduce")
        if self.rank != root:
            return None
        return buf if out is None else out

    def allgather(
        self,
        buf: Any,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Stack the arrays of all ranks, at every rank; see the function."""
        source = as_array(buf, "allgather")
        shape = (self.size, *source.shape)
        result, target = result_array(out, source, shape, "allgather")
        if out is not None:
            twins = (source, target[self.rank, ...])
            check_overlap(source, target, twins, "allgather")
        program = self._get(
            "allgather", source.dtype, source.size, None, 0, algorithm, None
        )
        self._run(program, source, target, timeout, "allgather")
        return result

    def allgatherv(
        self,
        buf: Any,
        counts: Sequence[int] | None = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Join the arrays of all ranks on axis 0, at every rank; see the function."""
        source = as_array(buf, "allgatherv")
        rows = length(source, "allgatherv")
        if counts is None:
            lengths = np.array([rows], np.int64)
            counts = self.allgather(lengths, timeout=timeout).ravel().tolist()
        counts = check_counts(counts, self.size, "allgatherv")
        if counts[self.rank] != rows:
            raise ValueError(
                f"allgatherv: rank {self.rank} passed {rows} rows but counts give it "
                f"{counts[self.rank]}; pass the same counts on every rank"
            )
        shape = (sum(counts), *source.shape[1:])
        result, target = result_array(out, source, shape, "allgatherv")
        if out is not None:
            start = sum(counts[: self.rank])
            twins = (source, target[start : start + rows])
            check_overlap(source, target, twins, "allgatherv")
        elements = tuple(count * row_size(source) for count in counts)
        program = self._get(
            "allgather", source.dtype, source.size, None, 0, algorithm, elements
        )
        self._run(program, source, target, timeout, "allgatherv")
        return result

    def reduce_scatter(
        self,
        buf: Any,
        op: Any = "sum",
        counts: Sequence[int] | None = None,
        *,
        out: Any = None,
        algorithm: AlgorithmChoice = None,
        timeout: float | None = None,
    ) -> Any:
        """Reduce the arrays of all ranks, a block at each rank; see the function."""
        source = as_array(buf, "reduce_scatter")
        rows = length(source, "reduce_scatter")
        if counts is None:
            share, more = divmod(rows, self.size)
            counts = [share + (rank < more) for rank in range(self.size)]
        counts = check_counts(counts, self.size, "reduce_scatter")
        if sum(counts) != rows:
            raise ValueError(
                f"reduce_scatter: counts add up to {sum(counts)} rows but buf has "
                f"{rows}; they must be equal"
            )
        shape = (counts[self.rank], *source.shape[1:])
        result, target = result_array(out, source, shape, "reduce_scatter")
        if out is not None:
            start = sum(counts[: self.rank])
            twins = (source[start : start + counts[self.rank]], target)
            check_overlap(source, target, twins, "reduce_scatter")
        elements = tuple(count * row_size(source) for count in counts)
        program = self._get(
            "reduce_scatter", source.dtype, source.size, op, 0, algorithm, elements
        )
        self._run(program, source, target, timeout, "reduce_scatter")
        return result

    def barrier(
        self, *, algorithm: AlgorithmChoice = None, timeout: float | None = None
    ) -> None:
        """Wait until every rank has come here; see the function."""
        program = self._get("barrier", _NO_DTYPE, 0, None, 0, algorithm, None)
        self._run(program, None, None, timeout, "barrier")

    def select(self, collective: str, nbytes: int) -> Selection:
        """What this communicator would choose, and why; see the function."""
        return select(
            collective, nbytes, size=self.size, machine=self._programs.machine
        )

    def group(self, ranks: Sequence[int]) -> "Communicator":
        """A communicator of some of the ranks, called by these only.

        Parameters
        ----------
        ranks
            Ranks of this communicator; their order gives the ranks of the new one.
        """
        members = tuple(int(rank) for rank in ranks)
        if len(set(members)) < len(members) or not set(members) <= set(
            range(self.size)
        ):
            raise ValueError(
                f"group: ranks {list(members)} must be different and below {self.size}"
            )
        if self.rank not in members:
            raise ValueError(
                f"group: rank {self.rank} is not in the group {list(members)}; "
                "only its members may call"
            )
        self._runner.check_open("group")
        number = self._groups[members] = self._groups.get(members, 0) + 1
        name = f"{'-'.join(map(str, members))}#{number}"
        connection = self._connection.origin.meet(
            name, members.index(self.rank), len(members)
        )
        connection.machine = self._programs.machine
        return Communicator(connection, self.timeout)

    def split(self, color: int | None, key: int = 0) -> "Communicator | None":
        """Split all ranks by ``color``, each part ordered by ``key``, then by rank.

        Returns
        -------
        Communicator or None
            None where ``color`` is None.
        """
        mine = np.array([color is not None, color or 0, key], np.int64)
        everyone = self.allgather(mine)
        ranks = [
            rank
            for _, rank in sorted(
                (row[2], rank)
                for rank, row in enumerate(everyone.tolist())
                if row[0] and row[1] == color
            )
        ]
        return None if color is None else self.group(ranks)

    def dup(self) -> "Communicator":
        """A communicator of the same ranks, with calls of its own."""
        return self.group(range(self.size))
