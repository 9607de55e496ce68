"""The memory of a host, in which groups find theirs by name."""

import os
import subprocess
import time
from contextlib import nullcontext

import pytest

from collalgo import BootstrapError
from collalgo._kernels.engine.transport.group_memory import lock_directory
from collalgo.bootstrap.host_memory import HostMemory, await_all, withdraw
from collalgo.engine.heap import mapped
from collalgo.engine.transport import shm

#: The pages of the table by which groups are found, in the unit of `Host.pages`.
CHAINS = 4 * 8


@pytest.fixture
def other():
    """A process that runs."""
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def end(process):
    process.kill()
    process.wait()


class Host:
    """The memories of two ranks of a host, of which another process is the second."""

    def __init__(self, process=0):
        self.descriptor = shm.create(2)
        self.segments = [mapped(2, self.descriptor) for _ in range(2)]
        processes = [os.getpid(), process]
        self.memories = [
            HostMemory(segment, place, processes)
            for place, segment in enumerate(self.segments)
        ]

    def group(self, place, name, seconds=10):
        return self.memories[place].group(name, [0, 1], time.monotonic() + seconds)

    def leave(self, place, transport):
        transport.close()
        self.memories[place].release(transport)

    @property
    def pages(self):
        """The memory that is used."""
        return os.fstat(self.descriptor).st_blocks

    def __del__(self):
        os.close(self.descriptor)


def memory_with(other):
    descriptor = shm.create(2)
    segment = mapped(2, descriptor)
    os.close(descriptor)
    return HostMemory(segment, 0, [os.getpid(), other])


def test_groups_of_one_name_share_their_memory_and_others_do_not():
    host = Host()
    host.memories[0].world()  # which keeps the memory
    one, same, different = host.group(0, "a"), host.group(1, "a"), host.group(0, "b")
    one.abort_calls(3)
    assert one.failure() == same.failure() is not None
    assert different.failure() is None
    host.leave(0, one)
    host.leave(1, same)
    again = host.group(0, "a")  # in memory that knows of no failure
    assert again.failure() is None
    assert again.absent() == [1]


@pytest.mark.parametrize("in_order", [True, False])
def test_memory_of_groups_is_used_again(in_order):
    host = Host()
    for place in range(2):
        host.memories[place].world()
    used = []
    for number in range(30):
        transports = [host.group(place, f"g{number}") for place in range(2)]
        assert [t.absent() for t in transports] == [[], []]
        if not in_order:
            transports[number % 2].abort_calls(1)
        for place, transport in enumerate(transports):
            assert (transport.failure() is None) == in_order
            host.leave(place, transport)
        used.append(host.pages)
    assert used[-1] <= used[0] + CHAINS


def test_who_comes_after_the_others_have_left_finds_them_gone():
    host = Host()
    for place in range(2):
        host.memories[place].world()
    for number in range(3):  # in new memory, then in memory that was used
        early = host.group(0, f"a{number}")
        assert early.absent() == [1]
        assert early.departure(1) is None
        host.leave(0, early)
        late = host.group(1, f"a{number}")
        assert late.departure(0) == (True, "its communicator was closed")
        host.leave(1, late)


def test_a_directory_in_which_a_rank_has_ended_is_taken(other):
    host = Host(other.pid)
    host.memories[0].world()
    lock_directory(host.segments[1], 1)
    end(other)
    transport = host.group(0, "a", 0)
    assert transport.absent() == [1]
    lock_directory(host.segments[0], 1)  # of whom this rank knows that it has ended
    assert withdraw(transport)
    lock_directory(host.segments[0], 1)
    host.leave(0, transport)
    assert host.group(0, "b", 0).absent() == [1]


def test_a_directory_in_use_is_waited_for_until_the_deadline(other):
    host = Host(other.pid)
    lock_directory(host.segments[1], 1)
    with pytest.raises(BootstrapError, match="rank 1 of this host uses the directory"):
        host.group(0, "a", 0.05)


def test_a_group_that_is_withdrawn_while_the_directory_is_in_use_is_tried_again(other):
    host = Host(other.pid)
    transport = host.group(0, "a")
    lock_directory(host.segments[1], 1)
    assert not withdraw(transport)
    end(other)
    assert withdraw(transport)


@pytest.mark.parametrize("has_come", [True, False])
def test_the_memory_of_a_rank_that_ended_is_free_once_the_others_have_left(
    other, has_come
):
    host = Host(other.pid)
    host.memories[0].world()
    used = None
    for number in range(3):
        mine = host.group(0, f"a{number}")
        its = host.group(1, f"a{number}") if has_come and number == 1 else None
        if number == 1:
            end(other)
        host.leave(0, mine)
        if number == 1:
            used = host.pages
        del its  # whose rank has ended, so that this changes nothing
    assert host.pages <= used + CHAINS


def test_a_group_that_was_given_up_can_be_made_again():
    host = Host()
    for place in range(2):
        host.memories[place].world()
    alone = host.group(0, "a")
    assert withdraw(alone)
    again = [host.group(place, "a") for place in (1, 0)]
    assert [t.absent() for t in again] == [[], []]
    assert not withdraw(again[0])  # as all have come
    host.leave(0, alone)
    host.leave(1, again[0])
    host.leave(0, again[1])


def test_nothing_is_read_by_the_numbers_of_another_namespace(other):
    """There they are those of other processes, whose memory may well be readable."""
    assert shm.readable([other.pid, os.getppid()], 0) == set()
    assert shm.readable([os.getpid(), other.pid, 0], 0) == {1}


def test_what_is_released_makes_no_groups_and_keeps_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    memory = memory_with(os.getppid())
    world = memory.world()
    world.close()
    memory.release(world)
    assert len(os.listdir("/proc/self/fd")) == before
    assert memory.heap.take(1) is None
    with pytest.raises(BootstrapError, match="all communicators here are closed"):
        memory.group("a", [0, 1], time.monotonic() + 1)


@pytest.mark.parametrize("comes", [True, False])
def test_a_member_that_comes_and_leaves_during_a_check_has_come(comes):
    host, deadline = Host(), time.monotonic() + 10
    first = host.group(0, "a")

    def check():
        if comes:
            host.leave(1, host.group(1, "a"))
        raise BootstrapError("rank 1 is gone")

    with nullcontext() if comes else pytest.raises(BootstrapError, match="is gone"):
        await_all(first, [0, 1], deadline, check)
