"""A failure belongs to its call: what all ranks called alike before it is completed.

The ranks that are ahead fail while others are still in an earlier call, or have yet to
come to it; these go on until they come to the call that failed.
"""

import random
import time
from functools import partial
from threading import Barrier, Event

import numpy as np
import pytest

from collalgo import (
    ALGORITHMS,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
    spawn,
    threads,
)
from tests.conftest import at_leisure

#: Seconds that a rank of processes is late, so that the others fail before it comes.
LATE = 0.3

COUNTS = (1, 5000, 40_000)  # the longest that a chain takes on though its end is late


def plain(_comm, count):
    return np.empty(count)


def in_heap(comm, count):
    """Memory that all ranks have mapped, where others read and write."""
    return comm.empty(count, np.float64)


def filled(comm, make, count):
    data = make(comm, count)
    data[:] = np.arange(count) if comm.rank == 0 else -1
    return data


def run_ahead(comm, data, failed):
    """The last rank comes to a broadcast when others have failed in the next call."""
    if comm.rank == comm.size - 1:
        assert failed.wait(30)
    comm.broadcast(data, 0, algorithm="chain")
    assert (data == np.arange(len(data))).all()
    with pytest.raises(MismatchError) as caught:
        comm.allreduce(np.ones(3 + (comm.rank == 0)))
        comm.barrier()
    failed.set()
    return caught.value.sequence, str(caught.value)


@pytest.mark.parallel
@pytest.mark.parametrize("make", [plain, in_heap])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("size", at_leisure((4, 5, 7, 8, 12, 16, 17, 33), (4, 5, 8)))
def test_a_call_is_completed_though_the_next_one_has_failed(size, count, make):
    failed = Event()

    def on_each_rank(comm):
        return run_ahead(comm, filled(comm, make, count), failed)

    for sequence, message in threads(on_each_rank, size, timeout=60):
        assert sequence == 2
        assert message.startswith("allreduce #2: rank ")


class Later:
    """Stands for an event that no process can share."""

    def wait(self, _timeout):
        time.sleep(LATE)
        return True

    def set(self):
        pass


def ahead_of_processes(comm):
    found = []
    for make in (plain, in_heap):
        for count in COUNTS:
            part = comm.dup()
            found.append(run_ahead(part, filled(part, make, count), Later())[0])
            part.close()
    return found


def test_what_lies_in_other_processes_is_read_after_they_have_failed():
    for found in spawn(ahead_of_processes, 4, timeout=60):
        assert found == [2] * 2 * len(COUNTS)


@pytest.mark.parallel
def test_a_call_in_the_background_is_completed_though_the_next_one_has_failed():
    failed = Event()

    def on_each_rank(comm):
        data = filled(comm, plain, 1000)
        if comm.rank == comm.size - 1:
            assert failed.wait(30)
        good = comm.broadcast_async(data, 0, algorithm="chain")
        bad = comm.allreduce_async(np.ones(3 + (comm.rank == 0)))
        after = comm.barrier_async()
        assert (good.wait() == np.arange(1000)).all()
        with pytest.raises(MismatchError, match=r"allreduce #2: rank"):
            bad.wait()
            after.wait()
        failed.set()

    threads(on_each_rank, 4, timeout=60)


@pytest.mark.parallel
def test_a_call_of_a_group_is_completed_though_the_next_one_has_failed():
    failed = Event()

    def on_each_rank(comm):
        group = comm.split(comm.rank % 2)
        if comm.rank % 2:
            run_ahead(group, filled(group, plain, 1000), failed)
        else:
            group.barrier()
        comm.barrier()  # whose failures are its own

    threads(on_each_rank, 8, timeout=60)


@pytest.mark.parametrize("count", COUNTS[:2])
@pytest.mark.parametrize("size", at_leisure((2, 3, 5, 8, 16), (2, 3, 8)))
def test_a_call_is_completed_though_the_next_one_has_timed_out(size, count):
    failed = Event()

    def on_each_rank(comm):
        data = filled(comm, plain, count)
        if comm.rank == comm.size - 1:
            assert failed.wait(30)
        comm.broadcast(data, 0, algorithm="linear", timeout=30)
        assert (data == np.arange(count)).all()
        with pytest.raises(CollectiveTimeout) as caught:
            comm.barrier(timeout=0.2)
        failed.set()
        assert (caught.value.sequence, caught.value.missing) == (2, (size - 1,))

    threads(on_each_rank, size, timeout=60)


#: Elements of messages that their sender keeps until they are received.
LONG = 5000


def test_messages_that_were_sent_are_received_though_the_next_one_was_given_up():
    failed = Event()

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout, match="message #") as caught:
                for number in range(100):
                    comm.send(np.full(LONG, number), 1, timeout=0.2)
            failed.set()
            return caught.value.sequence
        comm.recv(np.empty(LONG, int), 0)
        assert failed.wait(30)
        for number in range(1, 100):
            data = np.empty(LONG, int)
            try:
                comm.recv(data, 0, timeout=30)
            except CollectiveTimeout as error:
                assert error.sequence == number + 1
                return error.sequence
            assert (data == number).all()
        raise AssertionError("more messages than were sent")

    sent, received = threads(on_each_rank, 2, timeout=60)
    assert sent == received


def test_a_rank_that_leaves_after_a_failure_has_done_its_part_before():
    left = Barrier(4, timeout=30)

    def on_each_rank(comm):
        part = comm.dup()
        data = filled(part, plain, 100)
        if comm.rank == 3:
            left.wait()
        part.broadcast(data, 0, algorithm="chain")
        assert (data == np.arange(100)).all()
        with pytest.raises((MismatchError, PeerFailed)) as caught:
            part.allreduce(np.ones(3 + (comm.rank == 0)))
        assert caught.value.sequence == 2
        part.close()
        if comm.rank != 3:
            left.wait()

    threads(on_each_rank, 4, timeout=60)


def test_the_failure_of_an_earlier_call_takes_the_place_of_a_later_one():
    failed, told = Barrier(3, timeout=30), Barrier(4, timeout=30)

    def on_each_rank(comm):
        comm.barrier()
        with pytest.raises(MismatchError) as caught:
            if comm.rank == 2:
                failed.wait()
                comm.allreduce(np.ones(7))
            comm.broadcast(np.ones(1), 0, algorithm="chain")
            comm.allreduce(np.ones(3 + comm.rank))
        if comm.rank < 2:
            failed.wait()
        told.wait()
        with pytest.raises(MismatchError) as again:
            comm.barrier()
        return caught.value.sequence, again.value.sequence

    found = threads(on_each_rank, 4, timeout=60)
    assert found[:3] == [(3, 2), (3, 2), (2, 2)]


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
    number = 0
    try:
        for number in range(1, calls + 1):
            rest(delays)
            if not right_call(comm, dice):
                return f"job {seed}: wrong result of call {number}"
        number = calls + 1
        rest(delays)
        call = WRONG[how] if comm.rank == culprit else RIGHT.get(how, right)
        call(comm)
        number += 1
        rest(delays)
        comm.barrier()
    except MismatchError as error:
        if number <= calls or error.sequence != calls + 1:
            return f"job {seed}: {error} in call {number}, {how} in {calls + 1}"
        return None
    return f"job {seed}: {how} of call {calls + 1} is not raised"


WAITING = ("barrier", "allreduce", "allgather", "alltoall")


@pytest.mark.parallel
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
    [(2, 5), (4, 10), *(pytest.param(n, 300, marks=pytest.mark.slow) for n in (3, 4))],
)
def test_no_call_that_all_ranks_made_alike_ever_fails(start, size, count):
    found = start(partial(many_jobs, first=size * 1000, count=count), size, timeout=550)
    assert found == [[]] * size
