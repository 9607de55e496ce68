"""Nothing hangs: mismatches, timeouts and deaths are raised on every rank, with names.

Deadlines in this file bound how long a failure may take to be noticed, which is part of
what the library promises; they do not measure speed.
"""

import os
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from threading import Barrier, Timer

import numpy as np
import pytest

from collalgo import (
    CollalgoError,
    CollectiveTimeout,
    MismatchError,
    PeerFailed,
    spawn,
    threads,
)
from collalgo.comm.current import runner_of
from collalgo.cost.host_profile import host_profile
from collalgo.engine.transport import shm, thread


def both_raise(calls, error, size=2):
    """Let the ranks make different calls: the messages of the error on each."""

    def on_each_rank(comm):
        with pytest.raises(error) as caught:
            calls(comm)
            comm.barrier(timeout=5)
        assert caught.value.rank == comm.rank
        return str(caught.value)

    return set(threads(on_each_rank, size, timeout=10))


@pytest.mark.parametrize("count", [4, 1000, 10**6])
def test_different_counts_are_a_mismatch_on_every_rank(count):
    def calls(comm):
        comm.allreduce(np.ones(count * (1 + (comm.rank == 2)), np.float32))

    (message,) = both_raise(calls, MismatchError, size=4)
    assert f"passed {2 * count} elements" in message
    assert f"passed {count} elements" in message
    assert message.endswith("; every rank must pass the same count")


@pytest.mark.parametrize("counts", [(0, 5), (5, 0), (1, 10**6)])
def test_counts_that_lead_to_different_plans_are_a_mismatch(counts):
    def calls(comm):
        comm.allreduce(np.ones(counts[comm.rank], np.float32))

    (message,) = both_raise(calls, MismatchError)
    for count in counts:
        assert f"passed {count} elements" in message


def test_different_dtypes_of_the_same_bytes_are_a_mismatch():
    def calls(comm):
        comm.allreduce(np.ones(10, np.float64 if comm.rank else np.int64))

    (message,) = both_raise(calls, MismatchError)
    assert "passed float64" in message
    assert "passed int64" in message


def test_different_ops_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.allreduce(np.ones(10), "max" if comm.rank else "sum"),
        MismatchError,
    )
    assert "op 'max'" in message
    assert "every rank must pass the same op" in message


def test_different_roots_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.broadcast(np.ones(10), comm.rank), MismatchError
    )
    assert "root 0" in message
    assert "root 1" in message


def test_different_algorithms_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.allreduce(
            np.ones(10), algorithm="ring" if comm.rank else "one_shot"
        ),
        MismatchError,
    )
    assert "algorithm 'ring'" in message


def test_calls_in_another_order_are_a_mismatch():
    def calls(comm):
        first, second = (comm.broadcast, comm.allreduce)[:: 1 - 2 * comm.rank]
        first(np.ones(10))
        second(np.ones(10))

    (message,) = both_raise(calls, MismatchError)
    assert "called broadcast but" in message or "called allreduce but" in message


def test_different_counts_for_a_rank_are_a_mismatch():
    (message,) = both_raise(
        lambda comm: comm.reduce_scatter(
            np.ones(10), counts=[4, 6] if comm.rank else [5, 5]
        ),
        MismatchError,
    )
    assert "different counts" in message


def test_a_broken_communicator_keeps_saying_why():
    def on_each_rank(comm):
        messages = set()
        for _ in range(3):
            with pytest.raises(MismatchError) as caught:
                comm.allreduce(np.ones(1 + comm.rank))
            messages.add(str(caught.value))
        assert len(messages) == 1

    threads(on_each_rank, 2)


def test_a_rank_that_never_calls_is_named_with_its_last_call():
    given_up = Barrier(3, timeout=30)

    def on_each_rank(comm):
        comm.allreduce(np.ones(7))
        if comm.rank == 1:
            given_up.wait()
        with pytest.raises(CollectiveTimeout) as caught:
            comm.allreduce(np.ones(3), "max", timeout=0.4)
        if comm.rank != 1:
            given_up.wait()
        error = caught.value
        assert (error.missing, error.sequence, error.collective) == (
            (1,),
            2,
            "allreduce",
        )
        return str(error)

    messages = set(threads(on_each_rank, 3))
    assert len(messages) == 1
    assert (
        "waited 0.4 s for rank 1, whose last call was allreduce #1 (7 float64, sum"
        in (messages.pop())
    )


def test_a_rank_that_never_called_anything_is_named():
    given_up = Barrier(2, timeout=30)

    def on_each_rank(comm):
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout, match="last call was none at all"):
                comm.barrier(timeout=0.2)
        given_up.wait()

    threads(on_each_rank, 2)


def test_the_timeout_of_the_environment_counts(monkeypatch):
    monkeypatch.setenv("COLLALGO_TIMEOUT", "0.2")
    given_up = Barrier(2, timeout=30)

    def on_each_rank(comm):
        assert comm.timeout == 0.2
        if comm.rank == 0:
            with pytest.raises(CollectiveTimeout):
                comm.barrier()
        given_up.wait()

    threads(on_each_rank, 2)
    for value in ("soon", "-1", "0", "nan"):
        monkeypatch.setenv("COLLALGO_TIMEOUT", value)
        with pytest.raises(ValueError, match=r"COLLALGO_TIMEOUT=.* is not a number of"):
            threads(lambda comm: None, 1)


def test_an_exception_on_one_rank_reaches_the_others_with_its_text():
    seen = []

    def on_each_rank(comm):
        if comm.rank == 1:
            raise ZeroDivisionError("planted")
        with pytest.raises(PeerFailed) as caught:
            comm.barrier()
        seen.append((caught.value.missing, str(caught.value)))

    with pytest.raises(ZeroDivisionError, match="planted"):
        threads(on_each_rank, 3)
    for missing, message in seen:
        assert missing == (1,)
        assert "rank 1 is gone: ZeroDivisionError: planted (at test_fail" in message
    assert len(seen) == 2


def test_a_rank_that_closes_has_done_its_part_of_earlier_calls():
    def on_each_rank(comm):
        for _ in range(20):
            part = comm.dup()
            x = np.ones(10_000)
            part.broadcast(x, root=0)
            if comm.rank:
                time.sleep(0.001)
            part.allreduce(x)
            part.close()

    threads(on_each_rank, 3)


DEATHS = 5


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


def test_all_others_notice_a_killed_rank_within_a_second(tmp_path, monkeypatch):
    shared = set(os.listdir("/dev/shm"))
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
    assert set(os.listdir("/dev/shm")) <= shared
    assert len(os.listdir("/proc/self/fd")) <= descriptors + 1


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
    with pytest.raises(PeerFailed, match=r"rank 1 is gone.*last call was none at all"):
        comm.barrier()


@pytest.mark.parametrize("phase", [small_calls, only_sends, dies_before_anything])
def test_a_death_is_noticed_in_every_phase(phase):
    for _ in range(3):
        with pytest.raises(CollalgoError, match=r"rank 1 (was killed|ended)"):
            spawn(phase, 3, timeout=60)


def test_a_communicator_closed_by_another_thread_fails_the_call():
    def on_each_rank(comm):
        if comm.rank == 0:
            Timer(0.1, comm.close).start()
        else:
            time.sleep(0.5)
        with pytest.raises(PeerFailed, match="rank 0 is gone: its communicator was"):
            comm.barrier()

    threads(on_each_rank, 2)


@pytest.fixture
def _interruptible():
    """Heed Ctrl-C, which processes in the background are started to ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_interruptible")
def test_ctrl_c_ends_threads_that_wait():
    outcomes = []

    def on_each_rank(comm):
        comm.barrier()
        if comm.rank == 0:
            Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            time.sleep(1)
        try:
            comm.barrier(timeout=30)
        except PeerFailed as error:
            outcomes.append(str(error))

    with pytest.raises(KeyboardInterrupt):
        threads(on_each_rank, 3)
    end = time.monotonic() + 5
    while len(outcomes) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    assert any("interrupted by KeyboardInterrupt" in outcome for outcome in outcomes)


@pytest.mark.parametrize("call", ["message", "collective"])
def test_who_cannot_read_the_memory_of_a_living_rank_says_so(call):
    """Another process stands for one whose rights have changed."""
    number = 200_000

    def on_each_rank(comm):
        if comm.rank == 1:
            runner_of(comm).context.shared.allow_fetching(stranger.pid)
        programs = runner_of(comm).programs
        programs.host_profile = replace(host_profile(), exchange=2.0, fetch=1e-3)
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
