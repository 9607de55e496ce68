"""No call that all ranks made alike ever fails, whatever differs after it."""

import random
import time
from functools import partial

import numpy as np
import pytest

from collalgo import (
    ALGORITHMS,
    MismatchError,
    spawn,
    threads,
)
from collalgo.comm.communicator import Communicator
from tests.support.leisure import at_leisure

WRONG = {
    "count": lambda comm: comm.allreduce(np.ones(5)),
    "dtype": lambda comm: comm.allreduce(np.ones(3, np.float32)),
    "op": lambda comm: comm.allreduce(np.ones(3), "max"),
    "algorithm": lambda comm: comm.allreduce(np.ones(3), algorithm="ring"),
    "collective": lambda comm: comm.broadcast(np.ones(3), comm.rank),
    "root": lambda comm: comm.broadcast(np.ones(3), comm.rank),
    "reduced": lambda comm: comm.reduce(np.ones(3), "sum", comm.rank),
}


RIGHT = {
    "root": lambda comm: comm.broadcast(np.ones(3), 0),
    "reduced": lambda comm: comm.reduce(np.ones(3), "sum", 0),
}


def right_call(comm, dice):
    """A call that all make alike, and whether it gave what it should."""
    count = dice.choice((1, 3, 100, 5000, 60_000))
    root = dice.randrange(comm.size)
    kind = dice.choice(("allreduce", "broadcast", "reduce", "allgather", "barrier"))
    mine = np.full(count, comm.rank + 1)
    total = comm.size * (comm.size + 1) // 2
    if kind == "allreduce":
        return (comm.allreduce(mine) == total).all()
    if kind == "broadcast":
        return (comm.broadcast(mine, root) == root + 1).all()
    if kind == "reduce":
        found = comm.reduce(mine, "sum", root)
        return found is None or (found == total).all()
    if kind == "allgather":
        return (comm.allgather(mine) == np.arange(1, comm.size + 1)[:, None]).all()
    return comm.barrier() is None


def one_job(comm, seed):
    """Right calls, a wrong one and a barrier, with delays: what is not as it should."""
    dice, delays = random.Random(seed), random.Random(f"{seed} {comm.rank}")
    calls, culprit = dice.randrange(1, 5), dice.randrange(1, comm.size)
    how = dice.choice(sorted(WRONG))
    wrong = WRONG[how] if comm.rank == culprit else RIGHT.get(how, right)
    number = 0
    try:
        for number in range(1, calls + 1):
            rest(delays)
            if not right_call(comm, dice):
                return f"job {seed}: wrong result of call {number}"
        for call in (wrong, Communicator.barrier):
            number += 1
            rest(delays)
            call(comm)
    except MismatchError as error:
        if number <= calls or error.sequence != calls + 1:
            return f"job {seed}: {error} in call {number}, {how} in {calls + 1}"
        return None
    return f"job {seed}: {how} of call {calls + 1} is not raised"


WAITING = ("barrier", "allreduce", "allgather", "alltoall")


@pytest.mark.parametrize("collective", WAITING)
@pytest.mark.parametrize("size", at_leisure((2, 3, 5, 7, 8, 12, 16, 17), (3, 5, 8)))
def test_no_rank_returns_from_a_call_that_waits_for_all_if_calls_differed_before(
    size, collective
):
    """Whatever the algorithm; the last rank's wrong call exchanged no message."""
    rows = [
        row
        for row in ALGORITHMS
        if row.collective == collective
        and not row.hierarchical
        and row.size_obstacle(size) is None
    ]
    data = [] if collective == "barrier" else [np.ones(size)]

    def on_each_rank(comm):
        for row in rows:
            part, count = comm.dup(), 2000 * (comm.rank < size - 1)
            with pytest.raises(MismatchError, match="broadcast #1: rank"):
                part.broadcast(np.ones(count), 0, algorithm="linear")
                getattr(part, collective)(*data, algorithm=row.name)
                raise AssertionError(f"{row.name} has returned on rank {comm.rank}")
            part.close()

    threads(on_each_rank, size, timeout=60)


def right(comm):
    return comm.allreduce(np.ones(3))


def rest(delays):
    if delays.random() < 0.4:
        time.sleep(delays.expovariate(1000))


def many_jobs(comm, first, count):
    found = []
    for seed in range(first, first + count):
        part = comm.dup()
        found.append(one_job(part, seed))
        part.close()
    return [each for each in found if each]


@pytest.mark.parametrize("start", [threads, spawn])
@pytest.mark.parametrize(
    ("size", "count"),
    [(2, 5), (4, 4), *(pytest.param(n, 300, marks=pytest.mark.slow) for n in (3, 4))],
)
def test_no_call_that_all_ranks_made_alike_ever_fails(start, size, count):
    found = start(partial(many_jobs, first=size * 1000, count=count), size, timeout=550)
    assert found == [[]] * size
