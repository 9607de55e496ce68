"""Calls in the background: every collective, their order, their errors, their end."""

import gc
import os
import re
import signal
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import collalgo
from collalgo import (
    ALGORITHMS,
    CollalgoError,
    CommunicatorClosed,
    PeerFailed,
    spawn,
    threads,
)
from collalgo._kernels.engine.transport.segment import Segment
from collalgo._kernels.engine.transport.shared_memory import SharedMemory
from collalgo.comm.current import runner_of
from collalgo.engine.transport.shm import create
from collalgo.engine.transport.waiting import waits
from collalgo.schedule.collective import COLLECTIVES
from tests.support.oracle import check, vectors


class InBackground:
    """A communicator whose calls are all made in the background, and waited for."""

    def __init__(self, comm):
        self.comm = comm
        self.rank, self.size = comm.rank, comm.size

    def __getattr__(self, name):
        call = getattr(self.comm, f"{name}_async")
        return lambda *args, **named: call(*args, **named).wait()


def every_collective(comm):
    background = InBackground(comm)
    for number, row in enumerate(ALGORITHMS):
        if number % 3 == comm.size % 3 and row.obstacle(comm.size) is None:
            root = (comm.size - 1) * COLLECTIVES[row.collective].rooted
            for count in (0, 5, 1001, 30_011)[number % 2 :: 2]:
                inputs = vectors(comm.size, count, np.float32, seed=count)
                check(background, row, inputs, root=root)


@pytest.mark.parallel
@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_every_collective_is_right_in_the_background(size):
    threads(every_collective, size, timeout=120)


@pytest.mark.parallel
def test_every_collective_is_right_in_the_background_of_processes():
    spawn(every_collective, 3, timeout=120)


def in_any_order(comm):
    """What is outstanding is done in its order, whoever waits for what."""
    x = np.ones(3)
    first = comm.allreduce_async(x)
    assert (comm.allreduce(x) == comm.size**2).all()  # in turn, so the first is done
    assert first.done()
    works = [comm.allreduce_async(np.full(100, i)) for i in range(50)]
    chosen = np.random.default_rng(comm.rank).permutation(50)
    for i in chosen:
        assert (works[i].wait() == i * comm.size).all()
    later = collalgo.broadcast_async(np.array([comm.rank]), comm, root=comm.size - 1)
    uneven = comm.allgatherv_async(np.full(comm.rank, comm.rank))
    assert later.result()[0] == comm.size - 1
    assert len(uneven.wait()) == comm.size * (comm.size - 1) // 2
    comm.barrier_async().wait()


@pytest.mark.parallel
@pytest.mark.parametrize("size", [1, 2, 4])
def test_calls_are_made_in_their_order(size):
    threads(in_any_order, size, timeout=60)
    spawn(in_any_order, size, timeout=60)


@pytest.mark.parallel
def test_arrays_that_must_be_packed():
    def on_each_rank(comm):
        table = np.arange(24.0).reshape(4, 6)
        work = comm.allreduce_async(table[:, ::2].T, out=table[:, 1::2].T)
        work.wait()
        assert (table[:, 1::2] == comm.size * table[:, ::2]).all()
        frozen = np.ones(3)[::-1]
        frozen.flags.writeable = False
        with pytest.raises(ValueError, match="allreduce: buf is read-only"):
            comm.allreduce_async(frozen)
        assert comm.allreduce(np.ones(1))[0] == comm.size

    threads(on_each_rank, 3, timeout=60)


def is_soon(happens):
    """Whether something happens while nobody helps."""
    until = time.monotonic() + 20
    while not happens() and time.monotonic() < until:
        time.sleep(0.001)
    return happens()


@pytest.mark.parametrize("pause", [0, 0.002, 0.3])
def test_short_calls_that_nobody_waits_for_are_made(pause):
    def on_each_rank(comm):
        told = []
        for turn in range(5):
            works = [comm.allreduce_async(np.ones(3)) for _ in range(turn)]
            last = comm.allreduce_async(np.full(3, turn))
            last.add_done_callback(lambda work: told.append(work.result()[0]))
            comm.allreduce_async(np.ones(3)).wait()  # what came before is made, too
            assert all(work.done() for work in [*works, last])
            time.sleep(pause)
            lonely = comm.allreduce_async(np.full(3, turn))
            assert is_soon(lonely.done)
            assert (lonely.result() == turn * comm.size).all()
        assert told == [turn * comm.size for turn in range(5)]

    threads(on_each_rank, 3, timeout=60)


def test_who_waits_with_a_timeout_can_wait_again():
    def on_each_rank(comm):
        if comm.rank == 0:
            work = comm.allreduce_async(np.ones(3))
            with pytest.raises(TimeoutError, match=r"is not done after 0\.1 s"):
                work.wait(0.1)
            assert not work.done()
            assert "under way" in repr(work)
        comm.group(range(comm.size)).barrier()
        if comm.rank:
            work = comm.allreduce_async(np.ones(3))
        assert (work.wait(30) == comm.size).all()
        assert work.exception() is None

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.parallel
def test_who_wants_to_know_is_told():
    def on_each_rank(comm):
        told = []
        works = [comm.allreduce_async(np.ones(i)) for i in range(20)]
        for work in works:
            work.add_done_callback(lambda work: told.append(work.wait().size))
        works[-1].wait()
        works[0].add_done_callback(lambda work: told.append("late"))
        while len(told) < 21:
            time.sleep(0.001)
        assert set(told) == {*range(20), "late"}

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parallel
def test_a_mismatch_is_raised_where_it_is_waited_for_with_the_place_of_the_call():
    def on_each_rank(comm):
        good = comm.allreduce_async(np.ones(3))
        bad = comm.allreduce_async(np.ones(3 + comm.rank))
        after = comm.barrier_async()
        assert (good.wait() == comm.size).all()
        with pytest.raises(collalgo.MismatchError) as caught:
            bad.wait()
        assert "test_background.py" in caught.value.__notes__[0]
        assert bad.exception() is caught.value
        with pytest.raises(collalgo.CollalgoError):
            after.wait()

    threads(on_each_rank, 2, timeout=60)


def die_under_way(comm):
    work = comm.allreduce_async(np.ones(3))
    work.wait()
    if comm.rank == 1:
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)
    work = comm.allreduce_async(np.ones(3))
    error = work.exception()
    assert isinstance(error, PeerFailed)
    assert error.missing == (1,)


def test_a_death_is_told_by_the_work():
    with pytest.raises(collalgo.CollalgoError, match="rank 1 was killed by SIGKILL"):
        spawn(die_under_way, 3, timeout=60)


def test_closing_ends_what_is_under_way():
    def on_each_rank(comm):
        dup = comm.dup()
        if comm.rank == 0:
            works = [dup.allreduce_async(np.ones(100_000)) for _ in range(5)]
            time.sleep(0.05)
            dup.close()
            for work in works:
                assert isinstance(work.exception(), collalgo.CollalgoError)
            with pytest.raises(CommunicatorClosed):
                works[-1].wait()
            with pytest.raises(CommunicatorClosed, match="closed"):
                dup.allreduce_async(np.ones(3)).wait()
        comm.barrier()

    threads(on_each_rank, 2, timeout=60)


def test_nothing_is_left_of_communicators_with_a_background():
    def on_each_rank(comm):
        for _ in range(20):
            part = comm.dup()
            part.allreduce_async(np.ones(10)).wait()
            dropped = weakref.ref(part)
            del part
        comm.barrier()
        until = time.monotonic() + 10
        while dropped() is not None and time.monotonic() < until:
            gc.collect()
            time.sleep(0.05)
        assert dropped() is None

    before = threading.active_count()
    threads(on_each_rank, 2, timeout=60)
    until = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_arrays_are_released_when_a_call_is_done():
    def on_each_rank(comm):
        x = np.ones(100)
        held = weakref.ref(x)
        comm.allreduce_async(x)
        del x
        until = time.monotonic() + 10
        while held() is not None and time.monotonic() < until:
            time.sleep(0.02)
        assert held() is None

    threads(on_each_rank, 2, timeout=60)


@pytest.fixture
def crowded(monkeypatch):
    """Ranks that need all the cores there are."""

    def end(segment, rank, size, waits, **more):
        lacking = waits._replace(lacks_cores=True)
        return SharedMemory(segment, rank, size, lacking, **more)

    monkeypatch.setattr("collalgo.engine.transport.thread.SharedMemory", end)


def test_who_holds_calls_makes_them(crowded):
    def on_each_rank(comm):
        made_by = []
        for _ in range(10):  # the thread does not wait for ever
            assert runner_of(comm).progress.hold()
            works = [comm.allreduce_async(np.ones(size)) for size in (3, 1 << 16)]
            for work in works:
                work.add_done_callback(lambda _: made_by.append(threading.get_ident()))
            time.sleep(0.005)
            runner_of(comm).progress.catch_up()
            assert all((work.wait() == comm.size).all() for work in works)
        assert made_by.count(threading.get_ident()) > 2

    threads(on_each_rank, 2, timeout=60)


def test_calls_that_are_held_do_not_wake_the_thread(crowded):
    def switches():
        found = {}
        for thread in threading.enumerate():
            status = Path(f"/proc/self/task/{thread.native_id}/status")
            if thread.name == "collalgo":
                with suppress(OSError):  # it may end, if it is of an earlier test
                    text = status.read_text()
                    found[thread] = int(re.search(r"\nvoluntary\D*(\d+)", text)[1])
        return found

    def on_each_rank(comm):
        for calls in range(60):
            if calls == 10:
                comm.barrier()
                before = switches()
            runner_of(comm).progress.hold()
            comm.allreduce_async(np.ones(3)).add_done_callback(lambda _: None)
            runner_of(comm).progress.catch_up()
            time.sleep(0.004)
        comm.barrier()
        after = switches()
        comm.barrier()
        assert len(before.keys() & after.keys()) >= 2
        assert sum(after[t] - before[t] for t in before.keys() & after.keys()) < 50

    threads(on_each_rank, 2, timeout=60)


def test_calls_that_nobody_catches_up_on_are_made(crowded):
    def on_each_rank(comm):
        for size in (3, 1 << 16):
            for happens in ("told", "done", "wait", "called"):
                runner_of(comm).progress.hold()
                work, told = comm.allreduce_async(np.ones(size)), threading.Event()
                if happens == "told":
                    work.add_done_callback(lambda _, told=told: told.set())
                    assert told.wait(20)
                elif happens == "done":
                    assert is_soon(work.done)
                elif happens == "wait":
                    work.wait(20)
                else:
                    comm.barrier()
                    assert work.done()
                assert (work.wait() == comm.size).all()

    threads(on_each_rank, 2, timeout=60)


def test_nothing_is_held_where_cores_are_spare():
    descriptor = create(2)
    segment = Segment(descriptor, 2)
    os.close(descriptor)
    for cores, world_size in ((1, 2), (2, 2), (3, 2), (1, 4)):
        how = waits(2, cores, across=world_size > 2)
        end = SharedMemory(segment, 0, 2, how, world_size=world_size)
        assert end.lacks_cores == (cores < 3 and world_size == 2)
    assert threads(lambda comm: runner_of(comm).progress.hold(), 2) == [False, False]


def die_while_others_catch_up(comm):
    comm.barrier()
    if comm.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    runner_of(comm).progress.hold()
    works = [comm.allreduce_async(np.ones(3)) for _ in range(2)]
    runner_of(comm).progress.catch_up()
    assert all(isinstance(work.exception(), PeerFailed) for work in works)


def test_a_death_is_told_to_who_catches_up():
    with pytest.raises(CollalgoError, match=r"^rank 1 was killed by SIGKILL"):
        spawn(die_while_others_catch_up, 3, timeout=60)


def interrupted(comm):
    comm.barrier()
    if comm.rank == 0:
        # What a shell starts in the background may have been told to ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            comm.allreduce_async(np.ones(10)).wait()
        assert time.monotonic() - began < 1.5
    else:
        time.sleep(2)
        with pytest.raises(PeerFailed, match="rank 0 is gone"):
            for _ in range(2):  # the first may have been sent before
                comm.allreduce(np.ones(10))


def test_a_wait_can_be_interrupted():
    spawn(interrupted, 2, timeout=60)


def forked(comm):
    work = comm.allreduce_async(np.ones(3))
    work.wait()
    child = os.fork()
    if child == 0:
        try:
            comm.allreduce_async(np.ones(3))
        except CommunicatorClosed as error:
            os._exit(7 if "forked" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (comm.allreduce(np.ones(3)) == comm.size).all()


def test_a_forked_child_has_no_background():
    spawn(forked, 2, timeout=60)


@pytest.mark.parallel
def test_persistent_calls():
    def on_each_rank(comm):
        x = np.ones(5)
        total = comm.persistent_allreduce(x)
        for times in range(1, 4):
            assert total.start() is total
            assert total.wait() is x
            assert (x == comm.size**times).all()
        assert total() is x
        assert (x == comm.size**4).all()
        table = np.zeros((2, 6))
        packed = comm.persistent_allreduce(table[:, ::2])
        for value in (1, 2):
            table[:, ::2] = value
            packed.start().wait()
            assert (table[:, ::2] == value * comm.size).all()
        source, rows = np.zeros((3, 4)), None
        rows = np.zeros((comm.size, 3, 2)) if comm.rank == 0 else None
        gathered = comm.persistent_gather(source[:, ::2], out=rows)
        for value in (1, 2):  # where only the source has to be packed
            source[:] = value
            gathered.start().wait()
            assert rows is None or (rows == value).all()
        comm.barrier()
        if comm.rank == 0:
            total.start()
            with pytest.raises(collalgo.CollalgoError, match="still under way"):
                total.start()
        comm.group(range(comm.size)).barrier()
        if comm.rank:
            total.start()
        total.wait()

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parallel
def test_several_threads_may_give_calls_to_communicators_of_their_own():
    def on_each_rank(comm):
        parts = [comm.dup() for _ in range(4)]
        failures = []

        def work(part, seed):
            try:
                dice = np.random.default_rng(seed)
                for _ in range(100):
                    count = int(dice.integers(0, 3000))
                    work = part.allreduce_async(np.full(count, 1.0))
                    if dice.random() < 0.5:
                        assert (part.allreduce(np.ones(3)) == part.size).all()
                    assert (work.wait() == part.size).all()
            except BaseException as error:
                failures.append(error)

        runners = [
            threading.Thread(target=work, args=(part, seed))
            for seed, part in enumerate(parts)
        ]
        for runner in runners:
            runner.start()
        for runner in runners:
            runner.join()
        assert not failures

    threads(on_each_rank, 2, timeout=60)


class Slow(bytearray):
    """Memory that takes the GIL away while it is freed, as that of torch does."""

    def __del__(self):
        time.sleep(0.0001)


def test_what_is_released_may_let_other_threads_run():
    def on_each_rank(comm):
        failures = []

        def give():
            try:
                for number in range(400):
                    work = comm.allreduce_async(np.frombuffer(Slow(80), np.uint8))
                    if number % 5 == 4:
                        work.wait()
                    del work
            except BaseException as error:
                failures.append(error)

        givers = [threading.Thread(target=give) for _ in range(3)]
        for giver in givers:
            giver.start()
        for giver in givers:
            giver.join()
        comm.barrier()
        assert not failures

    threads(on_each_rank, 2, timeout=60)


def test_a_wait_of_zero_polls():
    def on_each_rank(comm):
        works = []
        if comm.rank == 0:
            works.append(comm.allreduce_async(np.ones(3)))
            for poll in (works[0].wait, works[0].result, works[0].exception):
                with pytest.raises(TimeoutError, match="is not done after 0 s"):
                    poll(0)
        comm.group(range(comm.size)).barrier()
        if comm.rank:
            works.append(comm.allreduce_async(np.ones(3)))
        assert is_soon(works[0].done)
        assert (works[0].wait(0) == comm.size).all()
        assert works[0].exception(0) is None
        for wrong in (-1, float("nan")):
            with pytest.raises(ValueError, match="need seconds above 0"):
                works[0].wait(wrong)

    threads(on_each_rank, 3, timeout=60)


def interrupted_by(comm, how):
    """A signal handler makes a call while its own rank is in another."""

    def handler(*_):
        how(comm)

    if comm.rank == 0:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(CollalgoError, match="which a signal handler has interr"):
            comm.barrier()
    else:
        time.sleep(0.3)
        with pytest.raises(PeerFailed, match="interrupted in barrier by CollalgoError"):
            comm.barrier()  # which has had the message of rank 0 before
            comm.barrier()


def interrupted_in_many_ways(comm):
    hows = [
        lambda part: part.allreduce(np.ones(3)),
        lambda part: part.allreduce_async(np.ones(3)).wait(),
        lambda part: part.allgatherv(np.ones(part.rank)),
    ]
    for used in (False, True):
        for how in hows:
            part = comm.dup()
            if used:
                part.barrier_async().wait()
            interrupted_by(part, how)
            part.close()
    comm.barrier()
    if comm.rank == 0:
        taken = []  # by the handler, whose message comes second
        signal.signal(
            signal.SIGALRM, lambda *_: taken.append(comm.recv(np.ones(1), 1)[0])
        )
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert comm.recv(np.ones(1), 1)[0] == 5
        assert taken == [6]
    else:
        time.sleep(0.6)
        comm.send(np.full(1, 5.0), 0)
        comm.send(np.full(1, 6.0), 0)


def test_a_call_of_a_signal_handler_during_another_says_what_it_is():
    spawn(interrupted_in_many_ways, 2, timeout=60)
