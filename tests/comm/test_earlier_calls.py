"""A failure belongs to its call: what all ranks called alike before it is completed.

The ranks that are ahead fail while others are still in an earlier call, or have yet to
come to it; these go on until they come to the call that failed.
"""

import time
from threading import Barrier, Event

import numpy as np
import pytest

from collalgo import (
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
    spawn,
    threads,
)
from tests.support.leisure import at_leisure

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


@pytest.mark.deadline
def test_what_lies_in_other_processes_is_read_after_they_have_failed():
    for found in spawn(ahead_of_processes, 4, timeout=60):
        assert found == [2] * 2 * len(COUNTS)


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


@pytest.mark.deadline
@pytest.mark.parametrize("count", [1, 1000])  # staged: the root waits for no reader
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


def receive_until_one_is_missing(comm):
    """The number of the message that was not sent, counted like the sender's."""
    for number in range(1, 100):
        data = np.empty(LONG, int)
        try:
            comm.recv(data, 0, timeout=30)
        except CollectiveTimeout as error:
            assert error.sequence == number + 1
            return error.sequence
        assert (data == number).all()
    raise AssertionError("more messages than were sent")


@pytest.mark.deadline
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
        return receive_until_one_is_missing(comm)

    sent, received = threads(on_each_rank, 2, timeout=60)
    assert sent == received


@pytest.mark.deadline
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


@pytest.mark.deadline
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
