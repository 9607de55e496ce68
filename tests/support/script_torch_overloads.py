"""Every overload of torch's ProcessGroup, as torch lists them: on gloo and on ours.

A script for an environment with torch; each rank is a thread.
"""

import inspect
import re
import time
from datetime import timedelta
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

import collalgo
from collalgo.integrations.torch import CollalgoGroup, Options, monitored_barrier
from collalgo.integrations.torch.options import checked

SIZES = (1, 2, 3)
SHAPES = ((), (4,), (6, 2))
SECONDS = timedelta(seconds=30)
#: With tensors of no dimension, in torch 2.13.
CRASH_ON_GLOO = {
    "_reduce_scatter_base", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
}  # fmt: skip
POINT_TO_POINT = {"send", "recv", "recv_anysource"}


class Overload(NamedTuple):
    """An overload: the names of its parameters, and their types as torch says them."""

    call: str
    parameters: tuple[tuple[str, str], ...]


def overloads():
    """All overloads that take tensors, and those of barrier."""
    for call in sorted(dir(dist.ProcessGroup)):
        text = inspect.getdoc(getattr(dist.ProcessGroup, call)) or ""
        for line in re.findall(
            rf"^(?:\d+\. )?{call}\(self: (.*)\) -> ", text, re.MULTILINE
        ):
            found = re.findall(r"(\w+): ([^=,]*[^=, ])", re.sub(r"<[^>]*>", "", line))
            if "torch.Tensor" in line or call == "barrier":
                yield Overload(call, tuple(found))


def value(rank, shape, salt=0):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * (rank + 2) + rank + salt) % 7).float().view(shape)


def contents(call, rank, size, shape):
    """The outputs and inputs of a call: a tensor, or a list of them."""
    is_root, one, other = rank == size - 1, value(rank, shape), value(rank, (3,))
    each, theirs = ([value(rank, shape, i) for i in range(size)] for _ in range(2))
    wide, as_wide = (value(rank, (size * sum(shape[:1] or (1,)), *shape[1:]), i)
                     for i in range(2))  # fmt: skip
    base = call.removeprefix("_").removesuffix("_coalesced").replace("_base", "_single")
    if call in {"allreduce_coalesced", "allgather_coalesced"}:
        rows = [[value(rank, shape, 1), value(rank, (3,), 1)] for _ in range(size)]
        return (None if "reduce" in call else rows), [one, other]
    found = {
        "allreduce": (None, one),
        "reduce": (None, one),
        "broadcast": (None, one),
        "barrier": (None, None),
        "allgather": (each, one),
        "gather": (each if is_root else [], one),
        "scatter": (one, each if is_root else []),
        "reduce_scatter": (one, each),
        "alltoall": (each, theirs),
        "allgather_single": (wide, one),
        "all_gather_single": (wide, one),
        "allgather_into_tensor": (wide, one),
        "reduce_scatter_single": (one, wide),
        "reduce_scatter_tensor": (one, wide),
        "all_to_all_single": (wide, as_wide),
        "alltoall_single": (wide, as_wide),
    }
    assert base in found, f"torch has a new call: {call}"
    return found[base]


def as_declared(found, kind):
    """A tensor or a list in the form that a parameter has."""
    depth = kind.count("Sequence")
    if isinstance(found, torch.Tensor):
        return found if depth == 0 else [found]
    nested = bool(found) and isinstance(found[0], list)
    return [found] if depth == 2 and found and not nested else found


def options(kind, size):
    made = getattr(dist, kind, None) or getattr(c10d, kind)
    opts = made()
    if hasattr(opts, "rootRank"):
        opts.rootRank = size - 1
    if hasattr(opts, "reduceOp"):
        opts.reduceOp = dist.ReduceOp.MAX
    return opts


def arguments(overload, rank, size, shape):
    """The arguments by name, and all the tensors in them."""
    outputs, inputs = contents(overload.call, rank, size, shape)
    found = {}
    for name, kind in overload.parameters:
        if "Tensor" in kind:
            is_output = name.startswith("output")
            found[name] = as_declared(outputs if is_output else inputs, kind)
        elif name == "opts":
            found[name] = options(kind.rsplit(".", 1)[-1], size)
        elif name.endswith("split_sizes"):
            found[name] = []
        else:
            known = {"op": dist.ReduceOp.MAX, "root": size - 1, "timeout": SECONDS}
            found[name] = known[name]
    return found, [*flattened(outputs), *flattened(inputs)]


def flattened(found):
    if found is None:
        return []
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for each in found for tensor in flattened(each)]


def result(group, overload, rank, size, shape, named):
    """All tensors after a call; None if the group refuses it."""
    found, tensors = arguments(overload, rank, size, shape)
    call = getattr(group, overload.call)
    try:
        (call(**found) if named else call(*found.values())).wait()
    except RuntimeError:
        assert not isinstance(group, CollalgoGroup), (overload, named)
        return None
    return tensors


def on_gloo(store, rank, size):
    group = dist.ProcessGroup(store, rank, size)
    gloo = dist.ProcessGroupGloo(store, rank, size, SECONDS)
    kind = dist.ProcessGroup.BackendType.GLOO
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, gloo)
    return group


def same(overload, found, expected):
    assert len(found) == len(expected), overload
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs), (overload, mine, theirs)


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
            expected = None
            if shape or overload.call not in CRASH_ON_GLOO:
                expected = result(gloo, overload, rank, size, shape, False)
            if overload.call == "reduce" and rank != size - 1:
                expected = None  # gloo leaves parts of the sum there
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


def packed_in_order(comm, store):
    """A call reads what the call before has written, also where it is packed."""
    rank, size = comm.rank, comm.size
    group, total = CollalgoGroup(comm, store), size * (size + 1) / 2
    scaled = options_of(dist.AllreduceOptions, reduceOp=dist._make_nccl_premul_sum(2.0))
    for turn in range(size):
        for call, expected in (
            (lambda x, out: group.allgather(out, x[0]), total),
            (lambda x, out: group.all_gather_single(torch.stack(out), x[0]), total),
            (lambda x, out: group.alltoall(out, list(x)), total),
            (lambda x, out: group.reduce_scatter(out[0], list(x)), total * size),
            (lambda x, out: group.gather(out if rank == 0 else [], x[0], 0), total),
            (
                lambda x, out: group.scatter(out[0], list(x) if rank == 0 else [], 0),
                total,
            ),
            (lambda x, out: group.allreduce([x], scaled), 2 * total * size),
            (lambda x, out: group.allreduce(x), total * size),
        ):
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
    lists = [torch.full((3,), 100, dtype=torch.int8) for _ in range(size)]
    found = torch.zeros(3, dtype=torch.int8)
    group.reduce_scatter(found, lists, dist.ReduceOp.AVG).wait()
    assert (found == 100).all(), found


def refused(comm, store):
    """What is not one tensor, or not one for each rank, is refused."""
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
            ValueError, "one length",
        ),
        (lambda: group.broadcast(x, 0, tag=1), TypeError, "tag"),
        (lambda: group.allreduce(x, dist.ReduceOptions()), TypeError, ""),
        (lambda: group.broadcast(), TypeError, "missing"),
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
        group.all_to_all_single(torch.ones(4), torch.ones(4), [2, 2], splits)
    except collalgo.MismatchError as error:
        assert "rank 0 sends 1 rows to rank 0, which expects 2" in str(error)
    else:
        raise AssertionError(splits)
    group.allreduce(x).wait()
    assert (x == size).all()


def beside_calls(comm, store):
    """Sequence numbers, options, a monitored barrier, and the end of a call."""
    rank, group = comm.rank, CollalgoGroup(comm, store)
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
    part = group.split_group([1, 0])
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
    monitored_barrier(group, SECONDS)
    comm.barrier()
    if rank == 0:  # whose call no other rank makes
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
    for check, size in ((packed_in_order, 3), (refused, 2), (beside_calls, 2)):
        collalgo.threads(partial(check, store=dist.HashStore()), size)
    print("right")
