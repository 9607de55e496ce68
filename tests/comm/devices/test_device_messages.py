"""Messages and buckets of arrays on devices."""

import numpy as np
import pytest

from collalgo import MismatchError


def test_a_bucket_collects_arrays_of_devices_and_of_the_host_apart(devices):
    def rank(comm, runtime):
        found = [runtime.array(np.full(n, 1.0 + comm.rank)) for n in (3, 4, 5)]
        host = [np.full(n, 1.0 + comm.rank) for n in (3, 4)]
        with comm.bucket() as bucket:
            for array in (found[0], found[1], host[0], host[1], found[2]):
                bucket.allreduce(array)
        return [float(runtime.values(x).sum()) for x in found] + [x.sum() for x in host]

    assert devices(rank, 2, "several processes") == [[9, 12, 15, 9, 12]] * 2


def test_structures_of_arrays_of_devices_and_of_the_host_are_reduced_and_moved(devices):
    def rank(comm, runtime):
        found = [runtime.array(np.full(n, 1.0 + comm.rank)) for n in (3, 4)]
        mixed = {"device": found, "host": [np.full(5, 1.0 + comm.rank), np.ones(1)]}
        with pytest.raises(
            TypeError, match=r"in the foreground only; use comm\.bucket"
        ):
            comm.allreduce_async(mixed)
        assert comm.allreduce(mixed) is mixed
        comm.broadcast(mixed, 1)
        rows = comm.allgather(found)
        values = [*map(runtime.values, [*found, *rows]), *mixed["host"]]
        return [float(each.sum()) for each in values]

    assert devices(rank, 2, "several processes") == [[9, 12, 18, 24, 15, 2]] * 2


@pytest.mark.parametrize("size", [2, 3])
def test_ranks_that_add_other_arrays_of_devices_to_a_bucket_are_told(devices, size):
    def rank(comm, runtime):
        bucket = comm.bucket()
        for length in [5, 3] if comm.rank else [3, 5]:
            bucket.allreduce(runtime.array(np.ones(length)))
        with pytest.raises(MismatchError, match=r"arrays of 3\+5 elements"):
            bucket.wait()
        return True

    assert all(devices(rank, size))


def test_arrays_of_devices_are_negotiated_beside_those_of_the_host(devices):
    def rank(comm, runtime):
        found = {f"w{n}": runtime.array(np.full(n, 1.0 + comm.rank)) for n in (3, 4, 5)}
        host = {f"h{n}": np.full(n, 1.0 + comm.rank) for n in (3, 4)}
        named = list((found | host).items())
        with comm.bucket(negotiate=True) as bucket:
            for name, array in named[:: 1 - 2 * comm.rank]:
                call = bucket.allreduce(array, name)
            call.wait(30)
        values = [*map(runtime.values, found.values()), *host.values()]
        return [float(each.sum()) for each in values]

    assert devices(rank, 2, "several processes") == [[9, 12, 15, 9, 12]] * 2


def test_an_array_of_a_device_has_no_partner_on_the_host(devices):
    def rank(comm, runtime):
        bucket, x = comm.bucket(negotiate=True), np.ones(3)
        with pytest.raises(MismatchError, match=r"of float64 on a device\b"):
            bucket.allreduce(runtime.array(x) if comm.rank else x, "w").wait()
        return True

    assert all(devices(rank, 2))


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
