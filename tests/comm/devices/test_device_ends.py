"""The end of arrays, communicators and ranks while streams go on."""

import gc
import logging
import os
import subprocess
import threading
import time
import weakref

import numpy as np
import pytest

from collalgo import CollectiveTimeout
from collalgo.comm.current import runner_of
from collalgo.comm.devices import context
from collalgo.comm.tracing.dump import named_records


def test_arrays_live_until_a_call_in_the_background_has_ended(devices):
    """Though its user has let go of them, and of the call."""

    def rank(comm, runtime):
        x = runtime.array(np.full(10, 1.0))
        comm.allreduce(x)
        alive = weakref.ref(x)
        gate = runtime.gate()
        comm.allreduce_async(x)
        del x
        time.sleep(0.5)  # the communicator lets go of what has ended
        gc.collect()
        lived = alive() is not None
        gate.set()
        for _ in range(100):
            runtime.values(comm.allreduce(runtime.array(np.full(10, 1.0))))
            time.sleep(0.02)
            gc.collect()
            if alive() is None:
                break
        return lived, alive() is None

    assert devices(rank, 2, "several processes") == [(True, True)] * 2


def test_a_call_that_does_not_end_does_not_keep_its_communicator(
    devices, caplog, monkeypatch
):
    """A rank never comes to its part: the others close, and say what they give up."""
    monkeypatch.setattr(context, "PATIENCE", 0.1)
    gates = []

    def rank(comm, runtime):
        if comm.rank:
            gates.append(runtime.gate())
        x = runtime.array(np.full(100, 1.0))
        comm.allreduce(x)
        comm.barrier()
        if comm.rank == 0:
            comm.close()
            runtime.values(x)
        for _ in range(2):
            comm.close()
        return len(runtime.closed)

    with caplog.at_level(logging.ERROR):
        closed = devices(rank, 2, "several processes")
    gates[0].set()
    assert closed[0] > 0
    assert caplog.text.count("0.1 s after their communicator was closed") == 2
    assert "have not ended 0.1 s after their communicator was closed" in caplog.text


def test_a_communicator_may_be_closed_while_streams_go_on(devices):
    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        gate = runtime.gate() if comm.rank else None
        comm.allreduce(x)
        if gate:
            threading.Timer(0.2, gate.set).start()
        comm.close()
        return runtime.values(x)[0]

    assert devices(rank, 3, "several processes") == [3.0] * 3


def end(process):
    process.kill()
    process.wait()


def test_streams_do_not_wait_for_the_dead(devices, caplog, monkeypatch):
    """Several calls are on the stream of a rank when the process of another ends."""
    monkeypatch.setattr(context, "PATIENCE", 0.1)
    lone, gates = subprocess.Popen(["sleep", "60"]), []

    def rank(comm, runtime):
        if comm.rank:
            runtime.process = lone.pid
            gates.append(runtime.gate())
        x = runtime.array(np.full(100, 1.0))
        for _ in range(3):
            comm.allreduce(x)
        if comm.rank == 0:
            end(lone)
            runtime.values(x)
        comm.barrier()
        comm.close()

    before = set(os.listdir("/proc/self/fd"))
    with caplog.at_level(logging.ERROR):
        devices(rank, 2, "several processes")
    gates[0].set()
    assert "rank 1 has died" in caplog.text
    assert set(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("kind", ["several hosts", "several hosts, devices, engine"])
def test_the_timeout_covers_a_stream_that_the_host_waits_for(devices, kind):
    """The calls are recorded as failed, and none of their exchanges has a number."""

    def rank(comm, runtime):
        x = runtime.array(np.ones(100))
        comm.allreduce(x)
        gate = runtime.gate()
        for number, call in enumerate((comm.allreduce_async, comm.allreduce), 2):
            with pytest.raises(
                CollectiveTimeout, match="earlier work on a str"
            ) as late:
                work = call(x, timeout=0.2)
                work.wait()
            record = named_records(runner_of(comm).recorder)[-1]
            assert (record["number"], record["state"]) == (number, "failed")
            assert late.value.sequence == 2
        gate.set()

    devices(rank, 2, kind)
