"""Counters of the calls of this process, as OpenMetrics text.

Counting begins with the first call of :func:`metrics`. Each communicator then passes
the sums of its flight recorder on, before records are overwritten: one call in some
hundreds does it, the others do nothing for it.
"""

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from collalgo._kernels.engine.program import Program
from collalgo.base.finalizers import finalize
from collalgo.comm.call_text import EXCHANGE, call_name, elements
from collalgo.comm.tracing.lateness import Lateness, compare_entries
from collalgo.comm.tracing.registry import Remembered, own_communicators, watch
from collalgo.comm.types import Communicator

if TYPE_CHECKING:
    import mpi4py.MPI


class Family(NamedTuple):
    """A family of samples: its name, unit and meaning."""

    name: str
    unit: str
    help: str


#: What is counted for each collective and algorithm, in this order.
COUNTED = (
    Family("calls", "", "Calls of collectives that have ended."),
    Family("failed_calls", "", "Those of them that failed."),
    Family("buffer_bytes", "bytes", "Bytes of the buffers that this rank passed."),
    Family("call_seconds", "seconds", "Seconds from the begin to the end of calls."),
)

UNREAD = Family("unread_calls", "", "Calls overwritten before they were counted.")

#: What is counted for each communicator that is compared.
COMPARED = Family("compared_calls", "", "Calls whose begin was compared on all ranks.")
LAST = Family("last_calls", "", "Those of them that this rank was the last to begin.")
WAITED = Family(
    "waited_seconds", "seconds", "Seconds from this rank's begin to that of the last."
)

#: The calls that look at others, and are not counted.
OWN = ("metrics", "trace")


class Sums(NamedTuple):
    """The sums of the calls of one collective and algorithm, as of :data:`COUNTED`."""

    calls: int = 0
    failed: int = 0
    nbytes: int = 0
    seconds: float = 0.0

    def plus(self, other: "Sums") -> "Sums":
        """The sums of both."""
        return Sums(
            self.calls + other.calls,
            self.failed + other.failed,
            self.nbytes + other.nbytes,
            self.seconds + other.seconds,
        )


class _Counters:
    """The counters of this process, which begin again in a forked one."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.sums: dict[tuple[str, str], Sums] = {}
        self.unread = 0
        #: By the name of the communicator and the rank here, of which threads are more.
        self.late: dict[tuple[str, int], Lateness] = {}


_lock = threading.RLock()  # as a signal handler or a finalizer may count, too
_counting: list[_Counters] = []  # the counters, once they are asked for


def metrics(comm: "Communicator | mpi4py.MPI.Comm | None" = None) -> str:
    """The counters of all calls of this process, as OpenMetrics text.

    The first call begins to count, with the last calls that the flight recorder still
    has. Without it nothing is counted.

    Parameters
    ----------
    comm
        A communicator to find late ranks of: then all its ranks must make this call,
        and the text also has, for each rank, the calls that it began last and the
        seconds that it waited for the last one.

    Returns
    -------
    str
        By collective and algorithm: calls, failed calls, bytes and seconds; for
        each communicator that was compared its late ranks; and the calls that were
        overwritten before they could be counted. All are counters, which only grow.

    Raises
    ------
    CollalgoError
        In a forked process that has no communicator of its own.

    Notes
    -----
    Messages are not counted; calls that exchange objects or make groups have the
    algorithm ``exchange``. If ranks are threads
    of a process, its text has the sums of all of them. The clocks of several hosts are
    aligned at the call, and the last 1024 calls are compared.

    Examples
    --------
    >>> import collalgo
    >>> import numpy as np
    >>> def job(comm):
    ...     collalgo.metrics()
    ...     comm.allreduce(np.ones(10), algorithm="ring")
    ...     return collalgo.metrics()
    >>> text = collalgo.threads(job, 1)[0]
    >>> print(text.splitlines()[0])
    # TYPE collalgo_calls counter
    >>> 'collalgo_calls_total{collective="allreduce",algorithm="ring"} ' in text
    True
    """
    counters = _begun()
    if comm is not None:
        name, rank, found = compare_entries(comm)
        with _lock:
            known = counters.late.get((name, rank))
            counters.late[name, rank] = found if known is None else known.plus(found)
    for one in own_communicators("metrics"):
        one.recorder.count_calls()
    with _lock:
        return "\n".join([*_calls(counters), *_lateness(counters), "# EOF", ""])


def _begun() -> _Counters:
    """The counters of this process, which begin at the first call."""
    with _lock:
        is_first = not _counting
        if is_first or _counting[0].process != os.getpid():
            _counting[:] = [_Counters()]
    if is_first:
        watch(_count)
    return _counting[0]


def _count(runner: Remembered) -> None:
    """Count the calls of a communicator, the last ones when it is released."""
    runner.recorder.start_tally(_add)
    finalize(runner, runner.recorder.count_calls)


def _add(found: Mapping[Program, tuple[int, int, int, float]], lost: int) -> None:
    """Add sums of calls, by their programs, to the counters."""
    named = [(program.call(), sums) for program, sums in found.items()]
    counters = _begun()
    with _lock:
        counters.unread += lost
        for call, (calls, failed, nbytes, nanoseconds) in named:
            key = call_name(call), _algorithm(call)
            passed = nbytes * elements({**call, "count": 2}) // 2  # of means, half
            more = Sums(calls, failed, passed, nanoseconds / 1e9)
            if key[0] not in OWN:
                counters.sums[key] = counters.sums.get(key, Sums()).plus(more)


def _algorithm(call: Mapping[str, Any]) -> str:
    name = str(call["algorithm"])
    return "exchange" if name.startswith(EXCHANGE) else name


def _calls(counters: _Counters) -> Iterator[str]:
    """The samples of calls by collective and algorithm."""
    for i, family in enumerate(COUNTED):
        yield from _header(family)
        for (collective, algorithm), sums in sorted(counters.sums.items()):
            labels = {"collective": collective, "algorithm": algorithm}
            yield _sample(family, labels, sums[i])
    yield from _header(UNREAD)
    yield _sample(UNREAD, {}, counters.unread)


def _lateness(counters: _Counters) -> Iterator[str]:
    """The samples of communicators that were compared."""
    # Each rank has the same comparisons: those of the first one here are shown.
    by_name = {name: late for (name, _), late in sorted(counters.late.items())[::-1]}
    found = sorted(by_name.items())
    if found:
        yield from _header(COMPARED)
        for name, late in found:
            yield _sample(COMPARED, {"communicator": name}, late.compared)
        yield from _header(LAST)
        for name, late in found:
            yield from _of_ranks(LAST, name, late.last)
        yield from _header(WAITED)
        for name, late in found:
            yield from _of_ranks(WAITED, name, late.waited)


def _of_ranks(family: Family, name: str, values: Sequence[float]) -> Iterator[str]:
    for rank, value in enumerate(values):
        yield _sample(family, {"communicator": name, "rank": str(rank)}, value)


def _header(family: Family) -> Iterator[str]:
    name = f"collalgo_{family.name}"
    yield f"# TYPE {name} counter"
    if family.unit:
        yield f"# UNIT {name} {family.unit}"
    yield f"# HELP {name} {family.help}"


def _sample(family: Family, labels: Mapping[str, str], value: float) -> str:
    words = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
    shown = f"{value:.9f}" if type(value) is float else str(value)
    braced = f"{{{words}}}" if labels else ""
    return f"collalgo_{family.name}_total{braced} {shown}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
