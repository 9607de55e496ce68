"""Which rank is the last to begin a call, of all ranks of a communicator."""

import json
import time
from typing import TYPE_CHECKING, NamedTuple, cast
from weakref import WeakKeyDictionary

import numpy as np

from collalgo.comm.call_text import EXCHANGE
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.track import zeros
from collalgo.comm.types import Communicator

if TYPE_CHECKING:
    import mpi4py.MPI

    from collalgo.comm.runner import Runner

#: The call that errors name.
CALL = "metrics"

#: The last call of each communicator that was compared.
_compared: "WeakKeyDictionary[Runner, int]" = WeakKeyDictionary()


class Lateness(NamedTuple):
    """The number of compared calls; for each rank those it began last, and its waits.

    A rank waits from its begin of a call to that of the last rank, in seconds.
    """

    compared: int
    last: tuple[int, ...]
    waited: tuple[float, ...]

    def plus(self, other: "Lateness") -> "Lateness":
        """The sums of two comparisons."""
        return Lateness(
            self.compared + other.compared,
            tuple(a + b for a, b in zip(self.last, other.last, strict=True)),
            tuple(a + b for a, b in zip(self.waited, other.waited, strict=True)),
        )


def compare_entries(
    comm: "Communicator | mpi4py.MPI.Comm",
) -> tuple[str, int, Lateness]:
    """Name and rank of a communicator, and its calls since the last comparison.

    All ranks make this call. Calls that a rank no longer remembers are left out.
    """
    runner = cast("Runner", runner_of(comm))
    runner.progress.drain()
    runner.exchange_as_call(np.zeros(1, np.uint8), CALL)
    mine = json.dumps([time.monotonic_ns(), runner.hosts[runner.rank], _begins(runner)])
    everyone = [json.loads(part) for part in runner.exchange_bytes(mine.encode(), CALL)]
    common = set.intersection(*({number for number, _ in c} for *_, c in everyone))
    if common:
        _compared[runner] = max(common)
    return runner.label, runner.rank, lateness(_aligned(everyone, common))


def _begins(runner: "Runner") -> list[tuple[int, int]]:
    """The number and the begin of each call of the user that is not compared yet."""
    after = _compared.get(runner, 0)
    return [
        (record["sequence"], record["begun"])
        for record in runner.recorder.records()
        if record["sequence"] > after and record["state"] == "done"
        and not record["algorithm"].startswith(EXCHANGE)
    ]  # fmt: skip


def _aligned(
    everyone: list[tuple[int, int, list[tuple[int, int]]]], common: set[int]
) -> list[list[float]]:
    """For each rank the begins of common calls in seconds, since this call."""
    starts, hosts, all_begins = zip(*everyone, strict=True)
    return [
        [(begun - zero) / 1e9 for number, begun in begins if number in common]
        for zero, begins in zip(zeros(starts, hosts), all_begins, strict=True)
    ]


def lateness(begins: list[list[float]]) -> Lateness:
    """The comparison of some calls by their begins on each rank, in seconds.

    >>> lateness([[0.0, 1.0], [0.5, 1.0], [0.25, 3.0]])
    Lateness(compared=2, last=(0, 1, 1), waited=(2.5, 2.0, 0.25))
    """
    times = np.array(begins, np.float64).reshape(len(begins), -1)
    last = np.bincount(times.argmax(axis=0), minlength=len(begins))
    waited = (times.max(axis=0) - times).sum(axis=1)
    return Lateness(times.shape[1], tuple(last.tolist()), tuple(waited.tolist()))
