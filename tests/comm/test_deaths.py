"""The death of a rank is noticed by all others, in every phase."""

import os
import random
import signal
import subprocess
import time
from pathlib import Path
from threading import Timer

import numpy as np
import pytest

from collalgo import (
    CollalgoError,
    PeerFailed,
    spawn,
    threads,
)
from collalgo.comm.current import runner_of
from collalgo.cost.host_profile import host_profile
from collalgo.engine.transport import shm, thread
from tests.support.leisure import at_leisure
from tests.support.shared_memory import left_in_memory, names_in_memory

DEATHS = 2


def die_in_the_middle(comm):
    """Rank 1 is killed at a random moment of an allreduce of 64 MiB."""
    data = np.ones(16 * 2**20, np.float32)
    comm.allreduce(data)  # so that all pages are there
    comm.barrier()
    if comm.rank == 1:
        Timer(random.uniform(0, 0.1), os.kill, (os.getpid(), signal.SIGKILL)).start()
    began = time.monotonic()
    with pytest.raises(PeerFailed, match="rank 1 is gone: its process ended") as caught:
        while True:
            began = time.monotonic()
            comm.allreduce(data)
    waited = time.monotonic() - began
    assert caught.value.missing == (1,)
    Path(os.environ["SURVIVORS"], f"{os.getpid()}").write_text(f"{waited}")
    with pytest.raises(PeerFailed, match="rank 1 is gone"):
        comm.barrier()
    mapped = Path("/proc/self/maps").read_text()
    assert "memfd:collalgo" in mapped
    comm.close()
    assert "memfd:collalgo" not in Path("/proc/self/maps").read_text()


@pytest.mark.deadline
def test_all_others_notice_a_killed_rank_within_a_second(tmp_path, monkeypatch):
    shared = names_in_memory()
    descriptors = len(os.listdir("/proc/self/fd"))
    for number in range(DEATHS):
        place = tmp_path / str(number)
        place.mkdir()
        monkeypatch.setenv("SURVIVORS", str(place))
        with pytest.raises(CollalgoError, match="rank 1 was killed by SIGKILL"):
            spawn(die_in_the_middle, 3, timeout=60)
        waits = [float(one.read_text()) for one in place.iterdir()]
        assert len(waits) == 2
        assert max(waits) < 1.5  # with the allreduce itself, on a busy machine
        for survivor in place.iterdir():
            assert not Path("/proc", survivor.name).exists()
    assert not left_in_memory(shared)
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


@pytest.mark.deadline
def test_who_had_ended_before_it_was_watched_is_gone():
    """As who dies when others still join: no timeout is needed to tell."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    end = thread.world(2)[0]
    (descriptor,) = shm.process_ends([os.getpid(), ended.pid], 0).values()
    end.watch(1, descriptor)
    assert end.departure(1) == (False, "its process ended")
    end.close()
    os.close(descriptor)


@pytest.mark.deadline
def test_numbers_of_another_namespace_are_not_watched():
    assert shm.process_ends([os.getpid() + 1, os.getpid()], 0) == {}


def small_calls(comm):
    """Rank 1 is killed while many short calls of all kinds go on."""
    x = np.ones(10)
    if comm.rank == 1:
        Timer(random.uniform(0.05, 0.1), os.kill, (os.getpid(), signal.SIGKILL)).start()
    with pytest.raises(PeerFailed, match="rank 1 is gone") as caught:
        while True:
            comm.broadcast(x, 0)
            comm.reduce(x, "max", 2)
            comm.barrier()
            comm.allreduce(x, "max")
    assert caught.value.missing == (1,)


def only_sends(comm):
    """The root of a broadcast, which waits for nobody, notices a death as well."""
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    began = time.monotonic()
    with pytest.raises(PeerFailed, match="rank 1 is gone"):
        while True:
            comm.broadcast(np.ones(1000), 0)
    assert time.monotonic() - began < 1.5


def dies_before_anything(comm):
    if comm.rank == 1:
        os._exit(0)
    with pytest.raises(PeerFailed, match=r"rank 1 is gone.*it has made no call"):
        comm.barrier()


@pytest.mark.parametrize("times", at_leisure([1, 9], {1}))
@pytest.mark.parametrize(
    "phase",
    [
        small_calls,
        pytest.param(only_sends, marks=pytest.mark.deadline),
        dies_before_anything,
    ],
)
def test_a_death_is_noticed_in_every_phase(phase, times):
    for _ in range(times):
        with pytest.raises(CollalgoError, match=r"rank 1 (was killed|ended)"):
            spawn(phase, 3, timeout=60)


@pytest.mark.deadline
@pytest.mark.parametrize("call", ["message", "collective"])
def test_who_cannot_read_the_memory_of_a_living_rank_says_so(call):
    """Another process stands for one whose rights have changed."""
    number = 200_000

    def on_each_rank(comm):
        if comm.rank == 1:
            runner_of(comm).context.shared.publish_can_fetch(stranger.pid)
        programs = runner_of(comm).programs
        programs.host_profile = host_profile()._replace(exchange=2.0, fetch=1e-3)
        comm.barrier()
        if call == "collective":
            comm.alltoall(np.ones((2, number)))
        elif comm.rank == 0:
            comm.recv(np.empty(number), 1)
        else:
            comm.send(np.ones(number), 0)

    stranger = subprocess.Popen(["sleep", "60"])
    try:
        with pytest.raises(PeerFailed, match="rank 0 cannot read the memory of rank 1"):
            threads(on_each_rank, 2, timeout=60)
    finally:
        stranger.kill()
        stranger.wait()
