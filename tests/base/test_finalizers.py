"""Finalizers run by the collector take no lock that their thread holds."""

import gc
import os
import re
from collections import deque
from pathlib import Path
from threading import Event, Thread, get_ident

import numpy as np
import pytest

import collalgo
from collalgo import CollalgoError, threads
from collalgo.base import finalizers
from collalgo.base.finalizers import Lock, finalize, serving


class Node:
    """An object that only the collector can end, as it refers to itself."""

    def __init__(self):
        self.myself = self


def drop(function, *args):
    """Drop an object whose finalizer the collector calls at the next collection."""
    finalize(Node(), function, *args)


@pytest.fixture(autouse=True)
def no_collection():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_it_runs_at_once_where_no_lock_is_held():
    found = []
    drop(found.append, 1)
    gc.collect()
    assert found == [1]


def test_it_waits_for_the_last_lock_that_the_thread_holds():
    found, outer, inner = [], Lock(), Lock()
    with outer:
        with inner:
            drop(found.append, 1)
            gc.collect()
            assert not found
        assert not found
    assert found == [1]


def test_it_may_take_the_lock():
    found, lock = [], Lock()

    def take():
        with lock:
            found.append(1)

    with lock:
        drop(take)
        gc.collect()
    assert found == [1]


def test_a_thread_that_holds_a_lock_is_refused_it_again():
    lock = Lock()
    for _ in range(2):
        with lock, pytest.raises(CollalgoError, match="own thread is changing"), lock:
            pytest.fail("it holds the lock twice")


def test_it_may_run_as_a_thread_takes_its_first_lock(monkeypatch):
    found, lock = [], Lock()

    class Interrupted(deque):
        def __init__(self):
            super().__init__()
            monkeypatch.setattr(finalizers, "deque", deque)
            drop(take, "inner")
            gc.collect()

    def take(name):
        with lock:
            found.append(name)

    monkeypatch.setattr(finalizers, "deque", Interrupted)
    thread = Thread(target=take, args=["outer"])
    thread.start()
    thread.join(20)
    assert found == ["inner", "outer"]


def test_one_that_fails_is_reported_and_the_next_runs(capsys):
    found, lock = [], Lock()
    with lock:
        drop(int, "no number")
        drop(found.append, 1)
        gc.collect()
    assert found == [1]
    assert "no number" in capsys.readouterr().err


def test_a_thread_that_others_wait_for_leaves_it_to_another():
    found, done = [], Event()

    def note():
        found.append(get_ident())
        done.set()

    @serving()
    def serve():
        drop(note)
        gc.collect()
        assert done.wait(20)

    thread = Thread(target=serve)
    thread.start()
    thread.join(20)
    assert found
    assert found[0] not in (get_ident(), thread.ident)


def test_a_forked_child_has_its_own_helper():
    with serving():
        pass
    child = os.fork()
    if child == 0:
        done = Event()
        with serving():
            drop(done.set)
            gc.collect()
            os._exit(0 if done.wait(20) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_arrays_of_the_heap_that_end_while_others_are_made():
    """As when the collector runs in the middle of an allocation."""

    def on_each_rank(comm):
        class Free(list):
            """Free runs of the heap; to look at them calls the collector."""

            def __iter__(self):
                gc.collect()
                return super().__iter__()

        kept = Node()
        kept.array = comm.empty(5000, np.float64)
        comm.heap._free = Free(comm.heap._free)
        del kept
        again = comm.empty(5000, np.float64)
        again[:] = comm.rank
        return float(again.sum())

    found = []
    thread = Thread(target=lambda: found.extend(threads(on_each_rank, 2)), daemon=True)
    thread.start()
    thread.join(20)
    assert found == [0.0, 5000.0]


#: Where a lock of Python itself is used, and why.
PLAIN = {
    "comm/runner.py": "it is never waited for",
    "base/finalizers.py": "it starts the thread of the helper",
    "integrations/as_mpi4py/comm_state.py": "only callers of collectives take it",
    "integrations/torch/work.py": "on the way of each call; no finalizer takes it",
}


def test_no_module_has_a_lock_that_a_finalizer_might_wait_for():
    home = Path(collalgo.__file__).parent
    plain = re.compile(r"from threading import .*\bLock\b|threading\.Lock\(")
    found = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        if plain.search(path.read_text())
    }
    assert found == PLAIN.keys()
