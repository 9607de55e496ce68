"""Duties of ranks under torch: calls in the background."""

import threading
import time
from collections import Counter
from datetime import timedelta
from functools import partial

import torch
import torch.distributed as dist

from tests.support.torch_values import equal, values


def sum_of(gradient, group, made_by):
    """Sum a gradient in the background, and note which thread has done it."""
    total = gradient.clone()
    future = dist.all_reduce(total, group=group, async_op=True).get_future()
    future.then(lambda _: made_by.append(threading.get_ident()))
    return total, future


def backward(hook):
    """A backward pass with a hook, whose gradient is 2 everywhere."""
    x = torch.ones(1000, requires_grad=True)
    x.register_hook(hook)
    (2 * x).sum().backward()


def ends_of_backward_passes():
    """What is called in a pass is made at its end, but not of all groups at once."""
    rank, size = dist.get_rank(), dist.get_world_size()
    pairs = [sorted({first, (first + 1) % size}) for first in range(size)]
    groups = [dist.new_group(pair) for pair in pairs]
    around = (groups[rank], groups[rank - 1])  # each rank calls in its own first
    at_end = 0
    for called_in in 10 * [(dist.group.WORLD, *around), around]:
        found, made_by = [], []

        def hook(gradient, called_in=called_in, found=found, made_by=made_by):
            found.extend(sum_of(gradient, group, made_by) for group in called_in)

        backward(hook)
        at_end += made_by.count(threading.get_ident())
        for (total, future), group in zip(found, called_in, strict=True):
            future.wait()
            equal(total, torch.full((1000,), 2.0 * group.size()))
    assert at_end > 10  # of 20, as a thread does not wait for ever


def waits_in_backward_passes():
    """What is waited for in a pass is made at once."""

    def hook(gradient, follow, made_by):
        total, future = sum_of(gradient, dist.group.WORLD, made_by)
        follow(future).wait()
        equal(total, torch.full((1000,), 2.0 * dist.get_world_size()))

    for follow in (lambda future: future, lambda future: future.then(id)):
        made_by = []
        for _ in range(20):
            backward(partial(hook, follow=follow, made_by=made_by))
        assert made_by.count(threading.get_ident()) > 10


def what_follows_fails():
    """An error in what follows a call is that of the future."""
    work = dist.all_reduce(values(0), async_op=True)
    future = work.get_future().then(lambda _: 1 // 0).then(lambda done: done.value())
    try:
        future.wait()
    except Exception as error:
        assert "by zero" in str(error), error
    else:
        raise AssertionError("no error")


def profiles():
    """The profiler sees calls by the names that they have with other backends."""
    rank, size = dist.get_rank(), dist.get_world_size()
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU]
    ) as profile:
        dist.all_reduce(values(rank))
        work = dist.all_reduce(values(rank), async_op=True)
        dist.all_gather([values(0) for _ in range(size)], values(rank))
        received = dist.irecv(values(0), (rank - 1) % size)
        dist.send(values(rank), (rank + 1) % size)
        received.wait()
        work.wait()
    found = Counter(event.name for event in profile.events())
    assert found["collalgo:all_reduce"] == 2, found
    for name in ("all_gather", "send", "recv"):
        assert found[f"collalgo:{name}"] == 1, found


def results_are_in_place():
    """Who waits goes on only when the result is there, whoever brings it there."""
    from collalgo.integrations.torch.work import GroupWork

    for first, second in (("get_future", "wait"), ("wait", "get_future")):
        begun, there = threading.Event(), []

        def bring(begun=begun, there=there):
            begun.set()
            time.sleep(0.2)
            there.append(True)

        work = GroupWork([], [], [bring])
        bringer = threading.Thread(target=getattr(work, first))
        bringer.start()
        begun.wait()
        getattr(work, second)()
        assert there
        bringer.join()


class Ending:
    """A call in the background that ends when it is told to."""

    def __init__(self):
        self.ended, self.callbacks = False, []

    def add_done_callback(self, callback):
        self.callbacks.append(callback)

    def done(self):
        return self.ended

    def wait(self, seconds):
        assert self.ended
        self.seconds = seconds
        time.sleep(0.001)

    def exception(self):
        return None

    def end(self):
        self.ended = True
        for callback in self.callbacks:
            callback(self)


def failures_of_results():
    """What fails after a call is the error of the future and of each wait."""
    from collalgo.integrations.torch.work import GroupWork

    work = GroupWork([], [], [lambda: 1 // 0])
    for wait in (work.get_future().wait, work.wait, work.wait):
        try:
            wait()
        except (RuntimeError, ZeroDivisionError) as error:
            assert "by zero" in str(error), error
        else:
            raise AssertionError("no error")


def timeouts_are_of_all_calls():
    """The second call of a work has the time that the first has left."""
    from collalgo.integrations.torch.work import GroupWork

    first, last = Ending(), Ending()
    first.end()
    last.end()
    GroupWork([first, last], []).wait(timedelta(seconds=30))
    assert last.seconds < first.seconds <= 30


def futures_are_of_all_calls():
    """As messages of other ranks, of which the last may be the first to end."""
    from collalgo.integrations.torch.work import GroupWork

    first, last = Ending(), Ending()
    future = GroupWork([first, last], []).get_future()
    last.end()
    assert not future.done()
    first.end()
    assert future.done()


def futures_end_before_waits():
    """A future is complete when a wait for its call returns."""
    for _ in range(50):
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        future = work.get_future()
        work.wait()
        equal(future.value()[0], torch.full((1000,), float(dist.get_world_size())))


def tensors_get_other_memory():
    """The memory of a call lives as long as it, though its tensor gets another."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for _ in range(10):
        made = [torch.ones(100_000) for _ in range(4)]
        work = dist.all_reduce(made[0], async_op=True)
        sent = dist.isend(made[1], (rank + 1) % size)
        received = dist.irecv(made[2], (rank - 1) % size)
        part = len(made[3]) // size
        parts = list(made[3].split(part))
        rows = dist.all_gather(parts, torch.ones(part), async_op=True)
        for tensor in made[::2]:
            tensor.set_(torch.zeros(3))
        for tensor in made[1::2]:
            tensor.data = torch.zeros(3)
        overwritten = [torch.full((100_000,), 7.0) for _ in range(4)]
        for one in (work, sent, received, rows):
            one.wait()
        assert all((each == 7).all() for each in overwritten)
