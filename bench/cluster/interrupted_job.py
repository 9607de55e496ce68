"""The ranks of a job in whose call a link is cut, and which then replan.

Every rank runs this script. Rank 0 prints ``CALLING`` and the seconds of a call as the
call begins in which the link is to be cut, and then the times as a line of JSON.
"""

import json
import sys
from time import monotonic
from typing import Any

import numpy as np

import collalgo
from collalgo import Communicator, Topology
from collalgo.base.environment import TOPOLOGY

CALLING = "calling"

#: Bytes of the arrays.
NBYTES = 64 << 20

#: Calls before the one in which the link is cut.
BEFORE = 3


def main(link: str) -> None:
    """Reduce arrays before, during and after the cut of a link, and print the times."""
    comm = collalgo.init(timeout=100)
    rest = Topology.read(TOPOLOGY.given()).without(link)
    ramp = np.arange(NBYTES // 4) % 5
    mine = (ramp + comm.rank).astype(np.float32)
    results = [np.zeros_like(mine) for _ in range(BEFORE + 3)]
    times = [_timed(comm, mine, out) for out in results[:BEFORE]]
    before = comm.select("allreduce", NBYTES).algorithm
    comm.barrier()
    if comm.rank == 0:
        begin, end = times[-1]
        print(f"{CALLING} {end - begin}", flush=True)
    times.append(_timed(comm, mine, results[BEFORE]))
    comm.replan(rest)
    replanned = monotonic()
    times += [_timed(comm, mine, out) for out in results[BEFORE + 1 :]]
    after = comm.select("allreduce", NBYTES).algorithm
    wrong = _wrong(comm.size, ramp, results)
    found = {**_of_all(comm, times, replanned, wrong), "before": before, "after": after}
    if comm.rank == 0:
        print(json.dumps(found), flush=True)


def _wrong(size: int, ramp: Any, results: list[Any]) -> int:
    """The number of wrong elements in the results of a rank."""
    expected = (size * ramp + sum(range(size))).astype(np.float32)
    return sum(int(np.count_nonzero(out != expected)) for out in results)


def _of_all(
    comm: Communicator, times: list[tuple[float, float]], replanned: float, wrong: int
) -> dict[str, Any]:
    """The times and the wrong elements of all ranks; the last rank ends a call."""
    ends = np.array([*(end for _, end in times), replanned])
    comm.allreduce(ends, "max")
    total = comm.allreduce(np.array([wrong]))
    return {
        "begins": [begin for begin, _ in times],
        "ends": ends[:-1].tolist(),
        "replanned": float(ends[-1]),
        "wrong": int(total[0]),
    }


def _timed(
    comm: Communicator, mine: "np.ndarray", out: "np.ndarray"
) -> tuple[float, float]:
    """When a call begins and ends, by the clock that all hosts share."""
    begin = monotonic()
    comm.allreduce(mine, out=out)
    return begin, monotonic()


if __name__ == "__main__":
    main(sys.argv[1])
