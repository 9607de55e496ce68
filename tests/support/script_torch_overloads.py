"""Every overload of torch's ProcessGroup, as torch lists them: on gloo and on ours.

A script for an environment with torch; each rank is a thread.
"""

import time
from functools import partial

import torch
import torch.distributed as dist

import collalgo
from collalgo.integrations.torch import CollalgoGroup, Options
from collalgo.integrations.torch.options import checked
from tests.support.torch_overloads import (
    CRASH_ON_GLOO,
    POINT_TO_POINT,
    SECONDS,
    SHAPES,
    SIZES,
    on_gloo,
    overloads,
    result,
    same,
)


def on_gloo_if_defined(gloo, overload, rank, size, shape):
    """The result of gloo; None where it refuses, crashes or leaves parts of a sum."""
    found = None
    if shape or overload.call not in CRASH_ON_GLOO:
        found = result(gloo, overload, rank, size, shape, False)
    return None if overload.call == "reduce" and rank != size - 1 else found


def every_overload(comm, store):
    """Compare all overloads; the calls that gloo refuses, with their first overload."""
    rank, size = comm.rank, comm.size
    gloo, ours = on_gloo(store, rank, size), CollalgoGroup(comm, store)
    calls, refused = 0, set()
    for shape in SHAPES:
        first = {}
        for overload in overloads():
            if overload.call in POINT_TO_POINT:
                continue
            expected = on_gloo_if_defined(gloo, overload, rank, size, shape)
            if expected is None and rank == 0:
                refused.add(overload.call)
            for named in (False, True):
                found = result(ours, overload, rank, size, shape, named)
                first.setdefault(overload.call, found)
                same(overload, found, first[overload.call])
                if expected is not None:
                    same(overload, found, expected)
            calls += 2
    return calls, sorted(refused)


def late(comm, rank):
    """Let the calls of one rank begin late, so that others submit several."""
    comm.barrier()
    if comm.rank == rank:
        time.sleep(0.03)


def options_of(kind, **fields):
    opts = kind()
    for name, found in fields.items():
        setattr(opts, name, found)
    return opts


def packed_calls(group, rank, size):
    """Calls that pack, with what they give of the sum of the ranks."""
    total = size * (size + 1) / 2
    scaled = options_of(dist.AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(2.0))
    return (
        (lambda x, out: group.allgather(out, x[0]), total),
        (lambda x, out: group.all_gather_single(torch.stack(out), x[0]), total),
        (lambda x, out: group.alltoall(out, list(x)), total),
        (lambda x, out: group.reduce_scatter(out[0], list(x)), total * size),
        (lambda x, out: group.gather(out if rank == 0 else [], x[0], 0), total),
        (lambda x, out: group.scatter(out[0], list(x) if rank == 0 else [], 0), total),
        (lambda x, out: group.allreduce([x], scaled), 2 * total * size),
        (lambda x, out: group.allreduce(x), total * size),
    )


def packed_in_order(comm, store):
    """A call reads what the call before has written, also where it is packed."""
    rank, size = comm.rank, comm.size
    group = CollalgoGroup(comm, store)
    for turn in range(size):
        for call, expected in packed_calls(group, rank, size):
            x = torch.full((4, size), rank + 1.0).t()  # not contiguous
            out = [torch.zeros(4) for _ in range(size)]
            late(comm, turn)
            first = group.allreduce(x)
            second = call(x, out)
            second.wait()
            first.wait()
            found = second.result()
            assert all((each == expected).all() for each in found), (found, expected)
        out = [torch.zeros(4) for _ in range(size)]
        late(comm, turn)
        group.allgather(out, torch.full((4,), rank + 1.0))
        group.allreduce(out[-1]).wait()
        assert (out[-1] == size * size).all(), out


def means_of_small_integers(comm, store):
    size, group = comm.size, CollalgoGroup(comm, store)
    lists = [torch.full((3,), 100, dtype=torch.int8) for _ in range(size)]
    found = torch.zeros(3, dtype=torch.int8)
    group.reduce_scatter(found, lists, dist.ReduceOp.AVG).wait()
    assert (found == 100).all(), found


def refused(comm, store):
    """What is not one tensor, or not one for each rank, is refused."""
    # Long: a table of the calls.
    rank, size = comm.rank, comm.size
    group, x = CollalgoGroup(comm, store), torch.ones(4)
    root = dist.BroadcastOptions()
    for call, kind, words in (
        (lambda: group.broadcast([x, x], root), ValueError, "list of 2"),
        (lambda: group.allreduce([x, x]), ValueError, "list of 2"),
        (lambda: group.reduce([x, x], dist.ReduceOptions()), ValueError, "list of 2"),
        (lambda: group.allgather([[x], [x]], [x, x]), ValueError, "list of 2"),
        (lambda: group.send([x, x], 0, 0), ValueError, "list of 2"),
        (lambda: group.allgather([x] * (size + 1), x), ValueError, "one for each"),
        (lambda: group.scatter(x, [x] * (size + 1), rank), ValueError, "one for each"),
        (lambda: group.scatter(x, [x], (rank + 1) % size), ValueError, "on the root"),
        (
            lambda: group.gather([x[: i + 1] for i in range(size)], x, rank),
            ValueError, "one shape",
        ),
        (lambda: group.broadcast(x, 0, tag=1), TypeError, "tag"),
        (lambda: group.allreduce(x, dist.ReduceOptions()), TypeError, ""),
        (lambda: group.broadcast(), TypeError, "missing"),
        (lambda: group.allreduce(3), TypeError, "got 3; pass one tensor"),
        (lambda: group.gather(None, x, 0), TypeError, "one list of tensors"),
        (lambda: group.alltoall([x, x.int()], [x] * size), TypeError, "one dtype"),
        (
            lambda: group.all_to_all_single(x, torch.ones(size + 1), [], []),
            ValueError, "split evenly",
        ),
        (lambda: group.all_to_all_single(x, x, [4], []), ValueError, "split sizes"),
    ):  # fmt: skip
        try:
            call()
        except kind as error:
            assert words in str(error), error
        else:
            raise AssertionError(words)
    splits = [2, 2] if rank else [1, 3]
    try:
        group.all_to_all_single(torch.ones(4), torch.ones(4), [2, 2], splits).wait()
    except collalgo.MismatchError as error:
        assert "rank 0 sends 1 rows to rank 0, which expects 2" in str(error)
    else:
        raise AssertionError(splits)
    group.allreduce(x).wait()
    assert (x == size).all()


def beside_calls(comm, store):
    """Sequence numbers, options and a monitored barrier."""
    group = CollalgoGroup(comm, store)
    before = group._get_sequence_number_for_group()
    for _ in range(3):
        group.allreduce(torch.ones(2)).wait()
    assert group._get_sequence_number_for_group() == before + 3
    assert group.allreduce(torch.ones(2)).get_future().wait()[0][0] == comm.size
    assert checked(None) == Options()
    try:
        checked(dist.ProcessGroupGloo._Options())
    except TypeError as error:
        assert "ProcessGroupGloo" in str(error), error
    else:
        raise AssertionError("options of gloo")
    dist.monitored_barrier(group, SECONDS)
    dist.monitored_barrier(group, SECONDS.total_seconds(), wait_all_ranks=True)


def splits(comm, store):
    """Groups of a group."""
    rank, group = comm.rank, CollalgoGroup(comm, store)
    part = group.split_group([1, 0], opts=Options(is_high_priority_stream=True))
    assert part.comm._runner.devices.has_high_priority
    part.allreduce(x := torch.tensor([rank])).wait()
    assert (x.item(), part.rank(), part.size()) == (1, rank, 2)
    alone = group.split_group([0], SECONDS)
    assert (alone is None) == (rank != 0)
    try:
        group.merge_remote_group(store, 3)
    except NotImplementedError as error:
        assert "one job" in str(error)
    else:
        raise AssertionError("merged")


def in_inference_mode(comm, store):
    """Another thread may make the copies of tensors that only this mode can change."""
    group, size = CollalgoGroup(comm, store), comm.size
    for _ in range(20):
        with torch.inference_mode():
            apart = [torch.zeros(2) for _ in range(2 * size)][::2]
            works = [group.allgather([apart], [torch.ones(2)])]
            mine = torch.zeros(2)
            works.append(group.reduce_scatter([mine], [apart]))
        for work in works:
            work.wait()
        assert mine.tolist() == [size] * 2


def ends_of_calls(comm, store):
    """A call that no other rank makes ends, and with it those of the others."""
    rank, group = comm.rank, CollalgoGroup(comm, store)
    comm.barrier()
    if rank == 0:
        work = group.allreduce(torch.ones(2))
        assert not work.is_completed()
        work.abort()
        call = work.wait
    else:
        time.sleep(0.1)
        call = comm.barrier
    try:
        call()
    except (collalgo.CommunicatorClosed, collalgo.PeerFailed):
        pass
    else:
        raise AssertionError(rank)


if __name__ == "__main__":
    found = list(overloads())
    assert len(found) > len({overload.call for overload in found}) > 20, found
    for size in SIZES:
        store = dist.HashStore()
        calls, refusals = collalgo.threads(partial(every_overload, store=store), size)[
            0
        ]
        print(f"{size} ranks: {calls} calls; gloo refuses", *refusals)
    for size, *checks in (
        (3, packed_in_order, means_of_small_integers),
        (2, refused, beside_calls, splits, in_inference_mode, ends_of_calls),
    ):
        for check in checks:
            collalgo.threads(partial(check, store=dist.HashStore()), size)
    print("right")
