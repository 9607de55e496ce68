"""A communicator: its world, its groups, its end, and what it keeps of its calls."""

import copy
import functools
import os
import pickle
import tracemalloc
from threading import Thread
from time import sleep

import numpy as np
import pytest

import collalgo
from collalgo import CollalgoError, CommunicatorClosed, threads
from collalgo.algorithms import ring
from collalgo.comm import shared_kinds
from collalgo.comm.current import runner_of
from collalgo.cost.host_profile import host_profile
from collalgo.engine.transport import shm, thread
from collalgo.selection import on_host
from collalgo.selection.pricer import TableCache


def test_a_closed_communicator_says_so(alone):
    alone.close()
    alone.close()
    with pytest.raises(CommunicatorClosed, match="this communicator is closed"):
        alone.allreduce(np.ones(1))
    with pytest.raises(CommunicatorClosed, match="closed"):
        alone.dup()


def test_a_communicator_of_the_parent_is_refused_in_a_forked_child(alone):
    with collalgo.init() as world:
        reading, writing = os.pipe()
        if not (child := os.fork()):
            try:
                for comm in (alone, world):
                    comm.allreduce(np.ones(1))
            except CommunicatorClosed as error:
                os.write(writing, str(error).encode())
            os._exit(0)
        os.close(writing)
        assert b"made before the process forked" in os.read(reading, 1000)
        os.close(reading)
        os.waitpid(child, 0)
        world.allreduce(np.ones(1))


def test_a_call_from_another_thread_in_the_middle_of_a_call_is_refused():
    def on_each_rank(comm):
        if comm.rank == 0:
            waiting = Thread(target=comm.barrier)
            waiting.start()
            sleep(0.1)
            with pytest.raises(CollalgoError, match="in another call"):
                comm.barrier()
            waiting.join()
        else:
            sleep(0.3)
            comm.barrier()

    threads(on_each_rank, 2)


def test_groups_have_ranks_of_their_own():
    def on_each_rank(comm):
        part = comm.split(comm.rank % 2, key=-comm.rank)
        again = part.dup()
        total = again.allreduce(np.array([comm.rank]))[0]
        assert comm.split(None) is None if comm.rank == 0 else comm.split(1)
        return part.rank, part.size, total

    assert threads(on_each_rank, 5) == [
        (2, 3, 6),
        (1, 2, 4),
        (1, 3, 6),
        (0, 2, 4),
        (0, 3, 6),
    ]


def test_a_group_is_for_its_members():
    def on_each_rank(comm):
        if comm.rank == 2:
            with pytest.raises(
                ValueError, match=r"rank 2 is not in the group \[1, 0\]"
            ):
                comm.group([1, 0])
            return None
        return comm.group([1, 0]).rank

    assert threads(on_each_rank, 3) == [1, 0, None]
    with pytest.raises(ValueError, match=r"\[0, 0\] name rank 0 twice"):
        threads(lambda comm: comm.group([0, 0]), 1)
    with pytest.raises(ValueError, match=r"rank 1 is out of range.*1 ranks"):
        threads(lambda comm: comm.group([1]), 1)


def test_calls_of_one_kind_share_a_program():
    def on_each_rank(comm):
        recorder = runner_of(comm).recorder
        for count in range(600):
            comm.allreduce(np.ones(count), algorithm="ring")
        used = {id(recorder.program(i + 1)) for i in range(600)}
        assert len(runner_of(comm).programs._kinds) == len(used) == 1
        assert [r["count"] for r in recorder.records()] == list(range(600))

    threads(on_each_rank, 2)


def test_a_schedule_with_parameters_has_the_same_name_on_every_rank():
    def on_each_rank(comm):
        def grid(group, rows, cols):  # another function on each rank
            row, column = group.grid(rows, cols)
            yield from ring.reduce_scatter(row)
            yield from ring.allreduce(column)
            yield from ring.allgather(row)

        schedule = functools.partial(grid, rows=2, cols=2)
        return comm.allreduce(np.ones(8), algorithm=schedule).tolist()

    assert threads(on_each_rank, 4) == [[4] * 8] * 4


def test_a_world_has_a_limit():
    with pytest.raises(ValueError, match="one host can hold 1 to 4096"):
        shm.create(5000)


def test_the_world_of_a_rank_is_the_one_it_was_started_in():
    def on_each_rank(comm):
        assert collalgo.init() is comm
        return collalgo.allreduce(np.array([1])).item()

    assert threads(on_each_rank, 3) == [3, 3, 3]
    assert collalgo.init().size == 1


def memory_after(call):
    """The traced memory after a thousand calls, and its peak."""
    for _ in range(1000):
        call()
    return tracemalloc.get_traced_memory()


def test_a_call_that_repeats_itself_keeps_no_memory(alone):
    x, out = np.ones(8), np.ones(8)
    calls = (
        lambda: alone.allreduce(x),
        lambda: alone.allreduce(x, out=out),
        lambda: alone.broadcast(x),
        alone.barrier,
    )
    for _ in range(1024):  # which the flight recorder keeps
        alone.barrier()
    for call in calls:
        call()
        tracemalloc.start()
        try:
            before, _ = memory_after(call)  # some of the calls may pass counters on
            now, peak = memory_after(call)
        finally:
            tracemalloc.stop()
        assert now - before < 200
        assert peak < 2000


def test_calls_of_other_arguments_are_never_mistaken_for_the_last():
    def on_each_rank(comm):
        for _ in range(3):
            for count, dtype in ((2, np.float32), (3, np.float32), (2, np.int16)):
                for op in ("sum", "max"):
                    x = np.full(count, comm.rank + 1, dtype)
                    expected = 3 if op == "sum" else 2
                    assert comm.allreduce(x, op).tolist() == [expected] * count
            for root in (0, 1):
                assert comm.broadcast(np.array([comm.rank]), root)[0] == root
            for algorithm in ("ring", "one_shot", None):
                assert comm.allreduce(np.ones(1), algorithm=algorithm)[0] == 2
            for counts in ([4, 0], [1, 3], None):
                block = comm.reduce_scatter(np.ones(4), counts=counts)
                assert block.tolist() == [2] * (counts or [2, 2])[comm.rank]
            equal = [2, 2] if comm.rank else None  # the same, said and unsaid
            assert comm.reduce_scatter(np.ones(4), counts=equal).size == 2

    threads(on_each_rank, 2)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 33])
def test_threads_make_the_memory_of_a_world_and_its_choices_once(size, monkeypatch):
    host_profile()  # which makes worlds of its own if it is not measured yet
    made = []
    for module, name in ((thread, "memory"), (on_host.HostPricer, "_choices")):
        original = getattr(module, name)
        monkeypatch.setattr(
            module, name, lambda *args, f=original: made.append(f) or f(*args)
        )
    monkeypatch.setattr(on_host, "_COMPUTED", TableCache())
    shared_kinds.forget()
    collalgo.threads(lambda comm: comm.allreduce(np.ones(3)), size)
    assert len(made) == 2


@pytest.mark.parametrize("reason", [3, None, b"text", ValueError("why")])
def test_a_reason_that_is_no_text_is_refused(reason):
    def on_each_rank(comm):
        words = rf"abort: reason is .*, of type {type(reason).__name__}; pass text"
        with pytest.raises(TypeError, match=words):
            comm.abort(reason)
        return comm.allreduce(np.ones(1))[0]

    assert threads(on_each_rank, 2) == [2, 2]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_communicator_and_its_calls_are_neither_copied_nor_pickled(copied, alone):
    with pytest.raises(TypeError, match=r"of type Communicator .* use dup\(\)"):
        copied(alone)
    for own in (alone.bucket(), alone.neighbors([[0]])):
        with pytest.raises(TypeError, match=f"of type {type(own).__name__} belong to"):
            copied(own)
    work = alone.allreduce_async(np.ones(3))
    with pytest.raises(TypeError, match=r"(?i)pickl"):
        copied(work)
    work.wait()
