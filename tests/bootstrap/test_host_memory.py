"""The memory of a host, in which groups find theirs by name."""

import os
import subprocess
import time

import pytest

from collalgo import BootstrapError
from collalgo._kernels.engine.transport.group_memory import DirectoryInUse, GroupMemory
from collalgo.bootstrap import host_memory
from collalgo.bootstrap.host_memory import HostMemory
from collalgo.engine.heap import mapped
from collalgo.engine.transport import shm

pytestmark = pytest.mark.parallel


@pytest.fixture
def ended():
    """The id of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def memory_with(other):
    descriptor = shm.create(2)
    segment = mapped(2, descriptor)
    os.close(descriptor)
    return HostMemory(segment, 0, [os.getpid(), other])


def test_groups_of_one_name_share_their_memory_and_others_do_not():
    memory = memory_with(0)
    deadline = time.monotonic() + 10
    one, same, other = (
        memory.group(name, [0, 1], deadline) for name in ("a", "a", "b")
    )
    one.break_off(3)
    assert one.failure() == same.failure() is not None
    assert other.failure() is None
    for transport in (one, same):
        transport.close()
        memory.release()
    again = memory.group("a", [0, 1], deadline)  # in pages that hold zeros
    assert again.failure() is None
    assert again.absent() == [1]


def test_a_directory_in_which_a_rank_has_ended_is_taken(monkeypatch, ended):
    memory, attempts = memory_with(ended), []

    def open_second(*arguments):
        attempts.append(arguments)
        if len(attempts) == 1:
            raise DirectoryInUse(1)
        return GroupMemory(*arguments)

    monkeypatch.setattr(host_memory, "GroupMemory", open_second)
    assert memory.group("a", [0, 1], time.monotonic()).absent() == [1]


def test_a_directory_in_use_is_waited_for_until_the_deadline(monkeypatch):
    def never(*_):
        raise DirectoryInUse(1)

    memory = memory_with(os.getppid())
    monkeypatch.setattr(host_memory, "GroupMemory", never)
    with pytest.raises(BootstrapError, match="rank 1 of this host uses the directory"):
        memory.group("a", [0, 1], time.monotonic() + 0.05)


def test_what_is_released_makes_no_groups_and_keeps_no_descriptors():
    before = len(os.listdir("/proc/self/fd"))
    memory = memory_with(os.getppid())
    memory.world().close()
    memory.release()
    assert len(os.listdir("/proc/self/fd")) == before
    assert memory.heap.take(1) is None
    with pytest.raises(BootstrapError, match="all communicators here are closed"):
        memory.group("a", [0, 1], time.monotonic() + 1)
