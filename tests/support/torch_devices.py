"""Duties of ranks under torch: groups whose devices have different backends."""

from contextlib import ExitStack, contextmanager
from datetime import timedelta
from types import SimpleNamespace
from unittest.mock import patch

import torch
import torch.distributed as dist

from collalgo.integrations.torch import creation, mixed
from collalgo.integrations.torch.group import CollalgoGroup
from tests.support.torch_values import equal, total, values


def usual_calls_of(group):
    """Make calls with one tensor and with lists, and messages, in a group."""
    rank, size = dist.get_rank(), dist.get_world_size()
    expected = total(torch.float32, range(size))
    found = values(rank)
    dist.all_reduce(found, group=group, async_op=True).wait()
    equal(found, expected)
    found = values(rank)
    dist.broadcast(found, 1, group=group)
    equal(found, values(1))
    rows = [torch.zeros(6) for _ in range(size)]
    dist.all_gather(rows, values(rank), group=group)
    table = torch.zeros(size * 6)
    dist.all_gather_into_tensor(table, values(rank), group=group)
    equal(table, torch.cat(rows))
    swapped = torch.zeros_like(table)
    dist.all_to_all_single(swapped, table, group=group)
    equal(swapped, values(rank).repeat(size))
    messages_of(group)


def messages_of(group):
    rank, found = dist.get_rank(), torch.zeros(6)
    works = [
        dist.isend(values(rank), 1 - rank, group=group),
        dist.irecv(found, 1 - rank, group=group),
    ]
    for work in works:
        work.wait()
    equal(found, values(1 - rank))


def ours_on_the_host():
    before = dist.group.WORLD._get_sequence_number_for_group()
    usual_calls_of(None)
    assert dist.group.WORLD._get_sequence_number_for_group() > before
    assert dist.get_backend_config() == "cpu:collalgo,cuda:gloo"
    named = [device.type for device in dist.group.WORLD._device_types]
    assert named == ["cpu", "cuda"]
    assert dist.group.WORLD._get_backend(torch.device("cpu")) is dist.group.WORLD
    on_gpu = dist.group.WORLD._get_backend(torch.device("cuda"))
    assert isinstance(on_gpu, dist.ProcessGroupGloo)
    other_backends()


def the_others_end_after_an_error_of_ours():
    """An error at the end of ours, or as its ranks connect."""
    ended = []
    other = SimpleNamespace(
        shutdown=lambda: ended.append("shutdown"), abort=lambda: ended.append("abort")
    )
    for name in "shutdown", "abort":
        group = mixed.MixedGroup(dist.group.WORLD.comm, None, {"cuda": other}, ["cpu"])
        with patch.object(CollalgoGroup, name, fail), raises(ZeroDivisionError):
            getattr(group, name)()
    with ExitStack() as made:
        made.enter_context(patch.object(mixed, "_other_group", lambda *_: other))
        made.enter_context(patch.object(creation, "_communicator", fail))
        made.enter_context(raises(ZeroDivisionError))
        dist.new_group([0, 1], backend="cpu:collalgo,cuda:gloo")
    assert ended == ["shutdown", "abort", "shutdown"], ended


def fail(*_):
    raise ZeroDivisionError


@contextmanager
def raises(kind):
    try:
        yield
    except kind:
        return
    raise AssertionError("no error")


def gloo_on_the_host():
    """No tensor of the host comes to collalgo, in the world or in a new group."""
    for group in None, dist.new_group(range(dist.get_world_size())):
        ours = group or dist.group.WORLD
        before = ours._get_sequence_number_for_group()
        usual_calls_of(group)
        assert ours._get_sequence_number_for_group() == before
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=50))
    assert dist.group.WORLD.comm.timeout == 60
    try:
        dist.group.WORLD.split_group([0])
    except NotImplementedError as error:
        assert "dist.new_group" in str(error), error
    else:
        raise AssertionError("not refused")


def other_backends():
    """What torch does not have is refused, before the ranks connect."""
    for backend, kind in ("nccl", RuntimeError), ("mpi", NotImplementedError):
        if backend == "nccl" and dist.is_nccl_available():
            continue
        try:
            dist.new_group([0, 1], backend=f"cpu:collalgo,cuda:{backend}")
        except kind as error:
            assert backend in str(error), error
        else:
            raise AssertionError(backend)
