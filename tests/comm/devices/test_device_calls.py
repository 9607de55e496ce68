"""Calls on arrays on devices, on a stand-in that the host cannot read or write."""

import gc
import logging
import os
import subprocess
import sys
import threading
import time
import weakref
from itertools import product

import numpy as np
import pytest

import collalgo
from collalgo import MismatchError
from collalgo._kernels.engine.devices import cuda
from collalgo.comm.current import runner_of
from collalgo.comm.devices import context
from collalgo.engine.devices import arrays
from tests.conftest import at_leisure
from tests.engine.devices.test_interpreter import build
from tests.support.fake_cuda import StandIn
from tests.support.fake_device_memory import DeviceArray

pytestmark = pytest.mark.parallel

KINDS = ["one process", "several processes", "several devices of one process",
         "several hosts", "several hosts, devices, network",
         "by way of the host"]  # fmt: skip


class OfThread(threading.local):
    runtime = None


@pytest.fixture(scope="module")
def interpreters(tmp_path_factory):
    kinds = ["float32", "float64", "float16", "bfloat16", "int8", "complex64", "bool"]
    used = [(kind, "sum") for kind in kinds] + [("float32", "max"), ("float32", "min")]
    return build(tmp_path_factory.mktemp("interpreters"), used)


@pytest.fixture(params=["operations", "one kernel"])
def devices(monkeypatch, interpreters, request):
    """Let each thread that is a rank have a device, of a kind."""
    mine = OfThread()
    monkeypatch.setattr(arrays, "runtime_of", lambda device: mine.runtime)
    if request.param == "operations":
        monkeypatch.setenv("COLLALGO_ONE_KERNEL", "0")

    def run(function, size, kind="one process", shared=None):
        def rank(comm):
            process = comm.rank if "processes" in kind else 0
            device = comm.rank if "devices" in kind else 0
            if "several hosts" in kind:
                runner_of(comm).hosts = (0, *[1] * (size - 1))
            mine.runtime = shared or StandIn(
                process, device, maps=kind != "by way of the host",
                reaches=kind != "devices that do not reach each other" or not comm.rank,
                interpreters=interpreters,
                network="a network" if "network" in kind else None,
                comes_up="no cable" not in kind or not comm.rank,
            )  # fmt: skip
            return function(comm, mine.runtime)

        return collalgo.threads(rank, size)

    return run


def given(rank, shape, dtype=np.float32):
    return np.random.default_rng(rank).integers(0, 9, shape).astype(dtype)


CALLS = {
    "allreduce": lambda c, x, o: c.allreduce(x, "sum", out=o((6, 4))),
    "allreduce in place": lambda c, x, o: c.allreduce(x, "max"),
    "mean": lambda c, x, o: c.allreduce(x, "avg"),
    "reproducible": lambda c, x, o: c.allreduce(x, reproducible=True),
    "reduce": lambda c, x, o: c.reduce(x, "sum", c.size - 1),
    "reduce_scatter": lambda c, x, o: c.reduce_scatter(x),
    "reduce_scatter uneven": lambda c, x, o: c.reduce_scatter(
        x, "min", [6, *[0] * (c.size - 1)]
    ),
    "broadcast": lambda c, x, o: c.broadcast(x, c.size - 1),
    "allgather": lambda c, x, o: c.allgather(x),
    "allgather out": lambda c, x, o: c.allgather(x, out=o((c.size, 6, 4))),
    "allgatherv": lambda c, x, o: c.allgatherv(x),
    "gather": lambda c, x, o: c.gather(x, 1),
    "scatter": lambda c, x, o: (
        c.scatter(x.part(slice(0, c.size)), 1) if c.rank == 1
        else c.scatter(x.part(0), 1)
    ),
    "scatter out": lambda c, x, o: (
        c.scatter(x.part(slice(0, c.size)), 1, out=o((4,))) if c.rank == 1
        else c.scatter(x.part(0), 1)
    ),
    "alltoall": lambda c, x, o: c.alltoall(x),
    "alltoallv": lambda c, x, o: c.alltoallv(x, [6, *[0] * (c.size - 1)]),
    "scan": lambda c, x, o: c.scan(x),
    "exscan": lambda c, x, o: c.exscan(x),
}  # fmt: skip


class Host:
    """An array of the host with the same ways to take a part of it."""

    def __new__(cls, values):
        return values.view(HostArray)


class HostArray(np.ndarray):
    def part(self, key):
        return np.ascontiguousarray(np.asarray(self)[key])


def part(self, key):
    first = key if isinstance(key, int) else key.start
    shape = self.shape[1:]
    row = int(np.prod(shape)) * self.dtype.itemsize
    rows = () if isinstance(key, int) else (key.stop - key.start,)
    return DeviceArray((*rows, *shape), self.dtype, self.pointer + first * row, self)


DeviceArray.part = part


def on_host(call, size, dtype):
    def rank(comm):
        x = Host(given(comm.rank, (6, 4), dtype))
        found = CALLS[call](comm, x, lambda shape: np.empty(shape, dtype))
        return None if found is None else np.array(found)

    return collalgo.threads(rank, size)


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


@pytest.mark.parametrize(
    ("kind", "size"),
    at_leisure(
        product(KINDS, [1, 2, 3]),
        {*product(KINDS, [3]), ("several processes", 1), ("by way of the host", 1)},
    ),
)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_gives_what_it_does_on_the_host(devices, call, size, kind):
    if size == 1 and ("gather" in call or "scatter" in call) and "all" not in call:
        pytest.skip("rank 1 is the root")

    def rank(comm, runtime):
        x = runtime.array(given(comm.rank, (6, 4)))
        found = CALLS[call](comm, x, lambda shape: DeviceArray(shape, np.float32))
        if found is None:
            return None
        assert isinstance(found, DeviceArray)
        return runtime.values(found).copy()

    found, expected = devices(rank, size, kind), on_host(call, size, np.float32)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_equal(ours, theirs)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "complex64", "bool"])
def test_dtypes(devices, dtype):
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)

    def rank(comm, runtime):
        x = runtime.array(given(comm.rank, 1001).astype(kind))
        return runtime.values(comm.allreduce(x)).copy()

    expected = collalgo.threads(
        lambda comm: comm.allreduce(given(comm.rank, 1001).astype(kind)), 3
    )
    for ours, theirs in zip(devices(rank, 3), expected, strict=True):
        assert (ours.view(np.uint8) == theirs.view(np.uint8)).all()


def test_the_host_does_not_wait_for_streams(devices):
    """Twenty calls return on all ranks while the stream of one stands still."""
    returned = threading.Barrier(3)

    def rank(comm, runtime):
        gate = runtime.gate() if comm.rank == 1 else None
        x = runtime.array(np.full(100, 1.0))
        for _ in range(20):
            comm.allreduce(x, "sum")
        returned.wait(30)
        if gate:
            gate.set()
        return runtime.values(x)[0]

    assert devices(rank, 3, "several processes") == [3.0**20] * 3


def test_ranks_on_one_stream_do_not_wait_for_themselves(devices, interpreters):
    """As threads of one process are by default, all on the same stream of a device."""
    shared = StandIn(interpreters=interpreters)

    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        for _ in range(3):
            comm.allreduce(x, "sum")
        return runtime.values(x)[0]

    assert devices(rank, 3, shared=shared) == [27.0] * 3


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


def test_the_prices_of_devices_choose(devices):
    def rank(comm, runtime):
        with pytest.raises(
            ValueError, match="unknown before the first call on device arr"
        ):
            comm.select("allreduce", 1000, devices=True)
        comm.allreduce(runtime.array(np.ones(10)))
        return comm.select("allreduce", 1000, devices=True).explain()

    for explained in devices(rank, 3):
        assert "one device shared by 3 ranks" in explained


@pytest.mark.parametrize("kind", KINDS)
def test_a_call_in_the_background_goes_on_beside_the_stream(devices, kind):
    def rank(comm, runtime):
        x = runtime.array(np.full(1000, 1.0 + comm.rank))
        works = [comm.allreduce_async(x), comm.allgather_async(x)]
        total, every = (work.wait() for work in works)
        assert all(work.done() for work in works)
        assert total is x
        assert "done" in repr(works[0])
        return runtime.values(total)[0], runtime.values(every).sum()

    assert devices(rank, 3, kind) == [(6.0, 6.0 * 3000)] * 3


def test_a_stream_can_wait_for_a_call_in_the_background(devices):
    """The host goes on, and the stream only when the call has ended."""
    meanwhile = threading.Barrier(2)

    def rank(comm, runtime):
        x = runtime.array(np.full(1000, 1.0 + comm.rank))
        gate = runtime.gate() if comm.rank else None
        work = comm.allreduce_async(x)
        assert work.wait_stream() is x
        assert not work.done()
        with pytest.raises(TimeoutError, match="goes on in the background"):
            work.wait(0.01)
        meanwhile.wait(30)
        if gate:
            gate.set()
        found = runtime.values(x)[0]
        work.wait(30)
        return found

    assert devices(rank, 2, "several processes") == [3.0, 3.0]


def test_a_stream_of_the_user_that_is_not_the_current_one(devices):
    def rank(comm, runtime):
        other = runtime.aside()
        x = runtime.array(np.full(1000, 1.0 + comm.rank))
        comm.allreduce_async(x).wait_stream(other)
        return other.values(x)[0]

    assert devices(rank, 2, "several processes") == [3.0, 3.0]


def test_calls_on_several_streams_keep_their_order(devices):
    """They share flags and scratch, so one must not overtake another."""

    def rank(comm, runtime):
        first, second = runtime.array(np.full(9, 1.0)), runtime.array(np.full(9, 2.0))
        gate = runtime.gate() if comm.rank else None
        works = [comm.allreduce_async(first)]
        comm.allreduce(second)
        works.append(comm.allreduce_async(second))
        if gate:
            gate.set()
        for work in works:
            work.wait()
        return runtime.values(first)[0], runtime.values(second)[0]

    assert devices(rank, 3, "several processes") == [(3.0, 18.0)] * 3


def test_what_fails_in_the_background_is_told_when_it_is_waited_for(devices):
    def rank(comm, runtime):
        comm.allreduce(runtime.array(np.ones(10)))  # the first looks at the devices
        work = comm.allreduce_async(runtime.array(np.ones(10 + comm.rank)))
        for wait in (work.wait, work.wait_stream):
            with pytest.raises(MismatchError) as caught:
                wait()
        return str(caught.value)

    assert all("10" in m and "11" in m for m in devices(rank, 2))


def test_a_bucket_collects_arrays_of_devices_and_of_the_host_apart(devices):
    def rank(comm, runtime):
        found = [runtime.array(np.full(n, 1.0 + comm.rank)) for n in (3, 4, 5)]
        host = [np.full(n, 1.0 + comm.rank) for n in (3, 4)]
        with comm.bucket() as bucket:
            for array in (found[0], found[1], host[0], host[1], found[2]):
                bucket.allreduce(array)
        return [float(runtime.values(x).sum()) for x in found] + [x.sum() for x in host]

    assert devices(rank, 2, "several processes") == [[9, 12, 15, 9, 12]] * 2


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_that_add_other_arrays_of_devices_to_a_bucket_are_told(devices, size):
    def rank(comm, runtime):
        bucket = comm.bucket()
        for length in [5, 3] if comm.rank else [3, 5]:
            bucket.allreduce(runtime.array(np.ones(length)))
        with pytest.raises(MismatchError, match=r"of 3\+5'"):
            bucket.wait()
        return True

    assert all(devices(rank, size))


def test_messages_between_two_ranks(devices):
    def rank(comm, runtime):
        x = runtime.array(np.full(10, 1.0 + comm.rank))
        with pytest.raises(ValueError, match="an array on a device to itself"):
            comm.send(x, comm.rank)
        if comm.rank == 0:
            comm.send(x, 1)
            return comm.isend(x, 1, tag=5).wait() is x
        first = comm.recv(runtime.array(np.zeros(10)), 0)
        second = comm.irecv(runtime.array(np.zeros(10)), 0, tag=5).wait()
        return runtime.values(first).sum() + runtime.values(second).sum()

    assert devices(rank, 2, "several processes") == [True, 20.0]


def test_messages_go_around_a_ring(devices):
    """Nobody waits for another before all have begun, for whom each is the first."""

    def rank(comm, runtime):
        comm.timeout = 20
        to, source = (comm.rank + 1) % 3, (comm.rank - 1) % 3
        sent = comm.isend(np.ones(3), to)
        comm.recv(np.ones(3), source)
        sent.wait()  # so that the pairs are up
        x, y = (runtime.array(np.full(10, 1.0 + comm.rank)) for _ in range(2))
        sent = comm.isend(x, to)
        comm.irecv(y, source).wait_stream()
        sent.wait_stream()
        return runtime.values(y)[0]

    assert devices(rank, 3, "several processes") == [3.0, 1.0, 2.0]


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


def test_streams_do_not_wait_for_the_dead(devices, caplog, monkeypatch):
    """Several calls are on the stream of a rank when the process of another ends."""
    monkeypatch.setattr(context, "PATIENCE", 0.1)
    lone = subprocess.Popen(["sleep", "60"])
    gates = []

    def rank(comm, runtime):
        if comm.rank:
            runtime.process = lone.pid
            gates.append(runtime.gate())
        x = runtime.array(np.full(100, 1.0))
        for _ in range(3):
            comm.allreduce(x)
        if comm.rank == 0:
            lone.kill()
            lone.wait()
            runtime.values(x)
        comm.barrier()
        comm.close()

    before = set(os.listdir("/proc/self/fd"))
    with caplog.at_level(logging.ERROR):
        devices(rank, 2, "several processes")
    gates[0].set()
    assert "rank 1 has died" in caplog.text
    assert set(os.listdir("/proc/self/fd")) <= before


def test_calls_in_a_graph_are_replayed_without_a_word(devices):
    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        y = runtime.array(np.zeros((3, 100)))
        comm.allreduce(x)  # what memory they need they have now
        with runtime.capture() as graph:
            comm.allreduce(x)
            comm.allgather(x, out=y)
        assert runtime.values(x)[0] == 3.0
        for _ in range(4):
            runtime.launch(graph)
        assert (runtime.values(y) == 3.0**5).all()
        comm.allreduce(x)
        return runtime.values(x)[0]

    assert devices(rank, 3, "several processes") == [3.0**6] * 3


def test_what_goes_by_way_of_the_host_cannot_be_in_a_graph(devices):
    def rank(comm, runtime):
        x = runtime.array(np.full(100, 1.0))
        with (
            runtime.capture(),
            pytest.raises(RuntimeError, match="a graph cannot capture"),
        ):
            comm.allreduce(x)

    devices(rank, 2, "by way of the host")


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


def test_some_on_devices_and_some_on_the_host_is_an_error_on_every_rank(devices):
    def rank(comm, runtime):
        x = np.ones(10)
        with pytest.raises(MismatchError) as caught:
            comm.allreduce(runtime.array(x) if comm.rank else x)
        return str(caught.value)

    for message in devices(rank, 3):
        assert "on devices" in message


def test_what_cannot_be_is_refused_and_loses_nothing(devices):
    def rank(comm, runtime):
        x = np.ones(10)
        for buf, out in ((x, runtime.array(x)), (runtime.array(x), x)):
            with pytest.raises(TypeError, match="is on a device and the other in"):
                comm.allreduce(buf, out=out)
        with pytest.raises(TypeError, match="capture the call itself in a graph"):
            comm.persistent_allreduce(runtime.array(x))
        apart = runtime.array(x)
        apart.contiguous = False
        with pytest.raises(ValueError, match="allreduce: pass a contiguous copy"):
            comm.allreduce(apart)
        fixed = runtime.array(x)
        fixed.writeable = False
        for call in (comm.allreduce, comm.allreduce_async):
            with pytest.raises(ValueError, match=r"buf is read-only.*or out="):
                call(fixed)
        with pytest.raises(ValueError, match="allreduce: out is read-only"):
            comm.allreduce(runtime.array(x), out=fixed)
        with pytest.raises(ValueError, match="root 7 is out of range"):
            comm.broadcast(runtime.array(x), 7)
        for kind in (np.int8, np.uint64):
            with pytest.raises(TypeError, match="'avg' could overflow on a device"):
                comm.allreduce(runtime.array(np.ones(3, kind)), "mean")
        with pytest.raises(TypeError, match="op 'band' is not defined for float64"):
            comm.allreduce(runtime.array(x), "band")
        return runtime.values(comm.allreduce(fixed, out=runtime.array(x)))[0]

    assert devices(rank, 2) == [2.0, 2.0]


def test_ranks_that_call_different_things_are_told(devices):
    def rank(comm, runtime):
        with pytest.raises(MismatchError) as caught:
            comm.allreduce(runtime.array(np.ones(10 + comm.rank)))
        return str(caught.value)

    assert all("10" in m and "11" in m for m in devices(rank, 2))


def test_without_cupy_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    cuda.checked_cupy.cache_clear()
    with pytest.raises(ImportError, match=r"pip install collalgo\[cuda\]"):
        collalgo.init().allreduce(DeviceArray((3,), np.float32))
