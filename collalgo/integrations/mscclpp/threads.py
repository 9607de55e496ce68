"""The threads of a block: where they must synchronise.

Each thread of a block runs an operation at its own pace; threads synchronise at ``nop``
and ``barrier``. Without one in between, the data of an operation may be missing for the
next one, and a signal may overtake the data before it.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.integrations.mscclpp.plan import (
    PACKETS,
    SHAPES,
    WAITS,
    Operation,
    Plan,
    Span,
)

#: Operations that wait for other blocks or GPUs, and those that let them continue.
WAITING, TELLING = {*WAITS, "sem_acquire"}, {"signal", "rlxsignal", "sem_release"}


class Use(NamedTuple):
    """An access of an operation: what it covers, and whether it is by packets.

    Operations on packets give the same element of the same span to the same thread.
    """

    span: Span
    by_packets: bool


#: The accesses to each chunk: GPU, buffer and number.
Uses = dict[tuple[int, str, int], set[Use]]


class Threads:
    """The operations of a block since its threads have met."""

    def __init__(self) -> None:
        self.meet()

    def meet(self) -> None:
        """Synchronise all threads."""
        self._has_waited = False
        self._has_moved = False
        self._read: Uses = defaultdict(set)
        self._written: Uses = defaultdict(set)

    def must_meet(self, operation: Operation) -> bool:
        """Whether the threads must synchronise before an operation."""
        if operation.kind in TELLING:
            return self._has_moved or self._has_waited
        if operation.kind not in SHAPES:
            return False
        if self._has_waited:
            return True
        reads, writes = _accesses(operation)
        return (
            _clash(self._written, reads)
            or _clash(self._written, writes)
            or _clash(self._read, writes)
        )

    def add(self, operation: Operation) -> None:
        """Record an operation."""
        if operation.kind in ("nop", "barrier"):
            self.meet()
        self._has_waited |= operation.kind in WAITING
        if operation.kind in SHAPES:
            self._has_moved = True
            for uses, now in zip(
                (self._read, self._written), _accesses(operation), strict=True
            ):
                for use in now:
                    for chunk in _chunks(use.span):
                        uses[chunk].add(use)


def _accesses(operation: Operation) -> tuple[list[Use], list[Use]]:
    """What an operation reads and writes; most readers of packets poll them instead."""
    polled = PACKETS if operation.kind != "ppkt" else None
    by_packets = operation.kind.endswith("pkt")
    reads = [Use(s, by_packets) for s in operation.sources if s.buffer != polled]
    return reads, [Use(span, by_packets) for span in operation.targets]


def _clash(before: Uses, now: list[Use]) -> bool:
    """Whether other threads may have an element of an access."""
    return any(
        not use.by_packets or found != {use}
        for use in now
        for chunk in _chunks(use.span)
        if (found := before.get(chunk))
    )


def _chunks(span: Span) -> Iterator[tuple[int, str, int]]:
    gpu, buffer, first, count = span
    return ((gpu, buffer, first + i) for i in range(count))


def check_threads(plan: Plan) -> None:
    """Check that the threads of each block synchronise where necessary.

    Raises
    ------
    ScheduleError
        If a ``nop`` is missing.
    """
    for gpu, blocks in enumerate(plan.blocks):
        for number, block in enumerate(blocks):
            threads = Threads()
            for step, operation in enumerate(block):
                where = f"operation {step} ({operation.kind}) of block {number}"
                if threads.must_meet(operation):
                    raise ScheduleError(
                        f"{plan.name}: {where} of GPU {gpu} needs a nop before it, as "
                        "its threads have to synchronise",
                        rank=gpu,
                    )
                threads.add(operation)
