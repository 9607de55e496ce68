"""Arrays on devices move by memory, by a network, or by way of the host."""

import logging
import os
import threading
import time

import numpy as np
import pytest

from tests.support.fake_cuda import StandIn


@pytest.mark.parametrize("first", [0, 1])
def test_ranks_may_come_to_share_a_device_and_part_again(devices, monkeypatch, first):
    """Whether a kernel may wait for others is known only when they have met."""
    monkeypatch.setattr(StandIn, "in_turns", True)

    def rank(comm, device):
        for call in range(4):
            apart = (call + first) % 2
            device.device = comm.rank if apart else 0
            x = comm.allreduce(device.array(np.ones(6, "f4")))
            assert device.values(x).tolist() == [2.0] * 6
        return device.interpreted

    one_kernel = os.environ.get("COLLALGO_ONE_KERNEL") != "0"
    assert devices(rank, 2, "several processes") == [2 * one_kernel] * 2


class Locking(StandIn):
    """Streams of one process, which waits for all of them when it loads a kernel.

    Meanwhile none can be filled, as in a context of CUDA. Some are filled slowly.
    """

    def __init__(self, interpreters, of=None):
        self.lock = threading.RLock() if of is None else of.lock
        self.streams = [] if of is None else of.streams
        super().__init__(interpreters=interpreters)
        with self.lock:
            self.slowness = 4e-3 * len(self.streams)
            self.streams.append(self)
        if of is not None:
            self.failures, self.loaded = of.failures, of.loaded

    def aside(self, **_):
        return Locking(self.interpreters, self)

    def _put(self, operation):
        time.sleep(self.slowness)
        with self.lock:
            super()._put(operation)

    def load(self, dtype, op, *, whole):
        with self.lock:
            if (dtype, op, whole) not in self.loaded:
                ends = [threading.Event() for _ in self.streams]
                for stream, end in zip(self.streams, ends, strict=True):
                    stream.queue.put(end.set)
                assert all(end.wait(5) for end in ends), "a stream waits for a rank"
            super().load(dtype, op, whole=whole)


@pytest.mark.parametrize("insisted", [False, True])
@pytest.mark.parametrize("kind", ["several processes",
                                  "several devices of several processes"])  # fmt: skip
def test_no_kernel_waits_for_ranks_that_have_the_device_in_turns(
    devices, monkeypatch, kind, insisted
):
    """Unless the user insists: what it waits for needs the device that it keeps."""
    monkeypatch.setattr(StandIn, "in_turns", True)
    if os.environ.get("COLLALGO_ONE_KERNEL") == "0":
        pytest.skip("no kernel waits here")
    if insisted:
        monkeypatch.setenv("COLLALGO_ONE_KERNEL", "1000")

    def rank(comm, device):
        x = comm.allreduce(device.array(np.ones(6, "f4")))
        assert device.values(x).tolist() == [3.0] * 6
        return device.interpreted

    assert devices(rank, 3, kind) == [int(insisted or "devices" in kind)] * 3


def test_ranks_of_one_process_load_kernels_while_no_stream_waits_for_them(
    devices, interpreters
):
    def rank(comm, device):
        for kind, op in (("f4", "sum"), ("f4", "max"), ("f4", "min"), ("f8", "sum")):
            x = device.array(np.arange(6, dtype=kind))
            comm.allreduce(x, op)
        return device.values(x).tolist()

    found = devices(rank, 3, shared=Locking(interpreters))
    assert found == [[0, 3, 6, 9, 12, 15]] * 3


def test_a_network_carries_what_memory_does_not(devices, caplog):
    def rank(comm, runtime):
        gate = runtime.gate() if comm.rank == 1 else None
        x = runtime.array(np.full(1000, 1.0))
        for _ in range(5):
            comm.allreduce(x)
            comm.broadcast(x, 1)
        if gate:
            gate.set()
        comm.allreduce_async(x).wait_stream()
        found = runtime.values(x)[0]
        comm.close()
        assert [end.closed for end in runtime.ends] == [True]
        return found

    with caplog.at_level(logging.WARNING):
        assert devices(rank, 3, "several hosts, devices, network") == [3.0**6] * 3
    assert not caplog.records


def test_a_cuda_aware_engine_carries_what_no_network_does(devices, caplog):
    def rank(comm, runtime):
        x = runtime.array(np.full(1000, 1.0))
        for _ in range(2):
            comm.allreduce(x)
        comm.allreduce_async(x).wait_stream()
        with runtime.capture(), pytest.raises(RuntimeError, match="graph cannot capt"):
            comm.allreduce(x)
        explained = comm.select("allreduce", 8000, devices=True).explain()
        assert "moved its arrays by an engine, CUDA-aware" in explained
        return runtime.values(x)[0]

    with caplog.at_level(logging.WARNING):
        assert devices(rank, 3, "several hosts, devices, engine") == [27.0] * 3
    assert not caplog.records


@pytest.mark.parametrize(
    ("kind", "route"),
    [
        ("several hosts, devices, network", "a network"),
        ("several processes", "memory that all ranks map"),
        ("several hosts, devices, engine of some", "copies through the host"),
    ],
)
def test_a_choice_tells_what_moved_the_arrays(devices, kind, route):
    def rank(comm, runtime):
        comm.allreduce(runtime.array(np.ones(6, "f4")))
        return comm.select("allreduce", 24, devices=True).explain()

    for explained in devices(rank, 2, kind):
        assert f"; the last call moved its arrays by {route}\n" in explained


@pytest.mark.parametrize(
    "kind", ["several hosts, devices, network, no cable", "several hosts, devices"]
)
def test_without_a_network_for_all_arrays_go_by_way_of_the_host(devices, caplog, kind):
    """Some have a network and some do not, or it does not come up for all."""

    def rank(comm, runtime):
        if "network" not in kind and comm.rank == 1:
            runtime.network = "a network"
        x = runtime.array(np.full(10, 1.0))
        comm.allreduce(x)
        assert all(end.closed for end in runtime.ends)
        return runtime.values(comm.allreduce(x))[0]

    with caplog.at_level(logging.WARNING):
        assert devices(rank, 3, kind) == [9.0] * 3
    said = [r.getMessage() for r in caplog.records]
    assert sum("through the host" in text for text in said) == 3
    assert sum("there is no cable" in text for text in said) == 2 * ("cable" in kind)


def test_devices_that_do_not_reach_each_other_go_by_way_of_the_host(devices, caplog):
    """Only some notice it, and all do the same."""

    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0 + comm.rank))
        for _ in range(2):
            comm.allreduce(x)
        return runtime.values(x)[0]

    with caplog.at_level(logging.WARNING):
        found = devices(rank, 3, "devices that do not reach each other")
    assert found == [18.0] * 3
    assert sum("through the host" in r.getMessage() for r in caplog.records) == 3


def test_short_calls_are_one_kernel(devices, request):
    one = "one kernel" in request.node.name

    def rank(comm, runtime):
        for count in (10, (1 << 20) + 1):
            x = runtime.array(np.full(count, 2, np.float32))
            comm.allreduce(x)
            assert runtime.values(x)[-1] == 4
        return runtime.interpreted

    assert devices(rank, 2, "several processes") == [one, one]


def test_mappings_are_made_once_and_released(devices):
    def rank(comm, runtime):
        x = runtime.array(np.ones(1000))
        for _ in range(5):
            comm.allreduce(x)
        runtime.values(x)
        comm.close()
        return len(runtime.opened), len(set(runtime.opened)), len(runtime.closed)

    for opened, different, closed in devices(rank, 2, "several processes"):
        assert opened == different == closed > 0


def test_the_way_by_the_host_is_announced_once(devices, caplog):
    def rank(comm, runtime):
        for _ in range(3):
            comm.allreduce(runtime.array(np.ones(3)))

    with caplog.at_level(logging.WARNING):
        devices(rank, 2, "by way of the host")
    said = [r for r in caplog.records if "through the host" in r.getMessage()]
    assert len(said) == 2  # once by each rank
