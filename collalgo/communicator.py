"""The communicator: ranks that make the same calls in the same order."""

import math
import os
import weakref
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from collalgo._kernels.engine import (
    RUN_BUSY,
    RUN_CLOSED,
    RUN_DONE,
    RUN_FAILED,
    RUN_FORKED,
    RUN_NEEDS_PACKING,
    RUN_NEEDS_SCRATCH,
    Program,
)
from collalgo._kernels.shared_memory import SharedMemory
from collalgo.arrays import (
    Array,
    as_array,
    check_output,
    check_overlap,
    check_writeable,
)
from collalgo.errors import CollalgoError, CommunicatorClosed
from collalgo.failures import error_of
from collalgo.machine import Machine
from collalgo.programs import AlgorithmChoice, Programs
from collalgo.select import Selection, select

#: Seconds that a call waits for the other ranks, unless told otherwise.
TIMEOUT = 300.0

#: Seconds that a rank waits for the others to come up.
JOIN_TIMEOUT = 60.0

_NO_SCRATCH = np.empty(0, np.uint8)
_NO_DTYPE = np.dtype(np.uint8)


class Origin(Protocol):
    """How a communicator came up, and how its groups can."""

    def meet(self, name: str, rank: int, size: int) -> "Connection": ...


class Connection:
    """An end of a world with all that is to be released with it."""

    def __init__(
        self,
        transport: SharedMemory,
        origin: Origin,
        machine: Machine | None = None,
        descriptors: Sequence[int] = (),
    ):
        self.transport = transport
        self.origin = origin
        self.machine = machine
        self.descriptors = list(descriptors)

    def release(
        self, farewell: str = "its communicator was closed", *, failed: bool = False
    ) -> None:
        """Tell the others, unmap the memory and close the descriptors."""
        self.transport.close(farewell, failed)
        while self.descriptors:
            os.close(self.descriptors.pop())


def seconds(timeout: float) -> float:
    """A timeout as the engine takes it: negative to wait for ever."""
    if not timeout > 0:
        raise ValueError(f"timeout {timeout!r}: need seconds above 0, or math.inf")
    return -1.0 if math.isinf(timeout) else float(timeout)


def default_timeout() -> float:
    """The timeout of new communicators: ``COLLALGO_TIMEOUT`` or :data:`TIMEOUT`."""
    text = os.environ.get("COLLALGO_TIMEOUT") or str(TIMEOUT)
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"COLLALGO_TIMEOUT={text!r} is no number of seconds") from None


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
        self._transport = transport
        self._connection = connection
        self._programs = Programs(self.rank, self.size, connection.machine)
        self._get = self._programs.get
        self._scratch = _NO_SCRATCH
        self._groups: dict[tuple[int, ...], int] = {}
        self._at_end = weakref.finalize(self, connection.release)
        self.timeout = default_timeout() if timeout is None else timeout

    def __repr__(self) -> str:
        state = " closed" if self.closed else ""
        return f"<Communicator{state} rank {self.rank} of {self.size}>"

    @property
    def timeout(self) -> float:
        """Seconds that a call waits for the other ranks before it raises."""
        return math.inf if self._seconds < 0 else self._seconds

    @timeout.setter
    def timeout(self, timeout: float) -> None:
        self._seconds = seconds(timeout)

    @property
    def closed(self) -> bool:
        return self._transport.closed

    @property
    def forked(self) -> bool:
        """Whether this process is a child forked after the communicator was made."""
        return self._transport.forked

    def close(self) -> None:
        """Leave the communicator and release its memory; closing twice is allowed."""
        if self._at_end.detach():
            self._connection.release()

    def abort(self, reason: str) -> None:
        """Close because of an error: calls of the others raise PeerFailed with it."""
        if self._at_end.detach():
            self._connection.release(reason, failed=True)

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
        result, target = self._result(out, source, shape, "allgather")
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
        length = _length(source, "allgatherv")
        if counts is None:
            lengths = np.array([length], np.int64)
            counts = self.allgather(lengths, timeout=timeout).ravel().tolist()
        counts = self._checked_counts(counts, "allgatherv")
        if counts[self.rank] != length:
            raise ValueError(
                f"allgatherv: rank {self.rank} passed {length} rows but counts give it "
                f"{counts[self.rank]}; pass the same counts on every rank"
            )
        shape = (sum(counts), *source.shape[1:])
        result, target = self._result(out, source, shape, "allgatherv")
        if out is not None:
            start = sum(counts[: self.rank])
            twins = (source, target[start : start + length])
            check_overlap(source, target, twins, "allgatherv")
        elements = tuple(count * _row_size(source) for count in counts)
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
        length = _length(source, "reduce_scatter")
        if counts is None:
            share, more = divmod(length, self.size)
            counts = [share + (rank < more) for rank in range(self.size)]
        counts = self._checked_counts(counts, "reduce_scatter")
        if sum(counts) != length:
            raise ValueError(
                f"reduce_scatter: counts add up to {sum(counts)} rows but buf has "
                f"{length}; they must be equal"
            )
        shape = (counts[self.rank], *source.shape[1:])
        result, target = self._result(out, source, shape, "reduce_scatter")
        if out is not None:
            start = sum(counts[: self.rank])
            twins = (source[start : start + counts[self.rank]], target)
            check_overlap(source, target, twins, "reduce_scatter")
        elements = tuple(count * _row_size(source) for count in counts)
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
        self._check_open("group")
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

    def _result(
        self, out: Any, like: Array, shape: tuple[int, ...], caller: str
    ) -> tuple[Any, Array]:
        """What the call returns, and the array that it writes to."""
        if out is None:
            target = np.empty(shape, like.dtype)
            return target, target
        target = as_array(out, caller)
        check_output(target, like, shape, caller)
        return out, target

    def _checked_counts(self, counts: Sequence[int], caller: str) -> list[int]:
        checked = [int(count) for count in counts]
        if len(checked) != self.size or min(checked) < 0:
            raise ValueError(
                f"{caller}: counts {checked} must be {self.size} numbers of rows, one "
                "for each rank, none negative"
            )
        return checked

    def _run(
        self,
        program: Program,
        source: Array | None,
        target: Array | None,
        timeout: float | None,
        caller: str,
    ) -> None:
        waiting = self._seconds if timeout is None else seconds(timeout)
        try:
            status = program.run(
                self._transport, source, target, self._scratch, waiting
            )
        except BaseException as error:
            self.abort(f"it was interrupted in {caller} by {type(error).__name__}")
            raise
        if status != RUN_DONE:
            self._cope(status, program, source, target, timeout, caller)

    def _cope(
        self,
        status: int,
        program: Program,
        source: Array | None,
        target: Array | None,
        timeout: float | None,
        caller: str,
    ) -> None:
        """Give the program what it lacks and run it, or say why it cannot run."""
        if status == RUN_NEEDS_SCRATCH:
            self._scratch = np.empty(program.plan.scratch_bytes, np.uint8)
            self._run(program, source, target, timeout, caller)
        elif status == RUN_NEEDS_PACKING:
            if target is not None:
                check_writeable(target, "buf" if target is source else "out", caller)
            self._run_packed(program, source, target, timeout, caller)
        elif status == RUN_FAILED:
            raise error_of(self._transport)
        elif status == RUN_BUSY:
            raise CollalgoError(
                f"{caller}: rank {self.rank} is in another call on this communicator, "
                "in another thread; use one communicator per thread (comm.dup())",
                rank=self.rank,
                collective=caller,
            )
        else:
            assert status in (RUN_CLOSED, RUN_FORKED)
            self._check_open(caller)

    def _run_packed(
        self,
        program: Program,
        source: Array | None,
        target: Array | None,
        timeout: float | None,
        caller: str,
    ) -> None:
        """Run on contiguous copies of arrays that are not contiguous or aligned."""
        assert source is not None
        packed_source = np.array(source, order="C", copy=True)
        if target is None:
            self._run(program, packed_source, None, timeout, caller)
            return
        packed_target = packed_source
        if target is not source:
            packed_target = np.empty(target.shape, target.dtype)
        self._run(program, packed_source, packed_target, timeout, caller)
        target[...] = packed_target

    def _check_open(self, caller: str) -> None:
        if self._transport.forked:
            raise CommunicatorClosed(
                f"{caller}: this communicator was made before the process forked, and "
                "only the parent can use it; call collalgo.init() in the child",
                rank=self.rank,
                collective=caller,
            )
        if self.closed:
            raise CommunicatorClosed(
                f"{caller}: this communicator is closed; make a new one",
                rank=self.rank,
                collective=caller,
            )


def _length(array: Array, caller: str) -> int:
    if array.ndim == 0:
        raise ValueError(f"{caller}: needs an array with an axis 0, not a 0-d array")
    return len(array)


def _row_size(array: Array) -> int:
    return math.prod(array.shape[1:])
