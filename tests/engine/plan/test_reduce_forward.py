"""Which sums a rank sends on as it makes them."""

import pytest

from collalgo import ALGORITHMS
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.lowering import Averaging
from collalgo.engine.plan.reduce_forward import NONE
from collalgo.engine.plan.template import TemplateKey
from collalgo.schedule import recv, recv_reduce, send


def forwarded(schedule, size, rank=0, averaging=Averaging.NO):
    """The spans of the sums that a rank sends on, with the step that makes them and the
    step that sends them."""
    key = TemplateKey("allreduce", schedule, rank, size, averaging=averaging)
    plan = key.template().plan(Layout(64 * size, 8, size))
    step_of = {
        m: number
        for number, (first, _, end) in enumerate(plan.steps.tolist())
        for m in range(first, end)
    }
    found = []
    for m, post in enumerate(plan.forwards.tolist()):
        if post == NONE:
            continue
        made, sent = plan.pieces[plan.messages[[m, post], 0], :2].tolist()
        assert made == sent
        assert all(plan.messages[n, 1] - plan.messages[n, 0] == 1 for n in (m, post))
        found.append((tuple(made), step_of[m], step_of[post]))
    return found


def named(name):
    return next(
        row.schedule
        for row in ALGORITHMS
        if (row.collective, row.name) == ("allreduce", name)
    )


@pytest.mark.parametrize("averaging", [Averaging.NO, Averaging.BEFORE_SHARING])
@pytest.mark.parametrize("size", [2, 3, 4, 8])
def test_two_shot_forwards_its_part(size, averaging):
    for rank in range(size):
        found = forwarded(named("two_shot"), size, rank, averaging)
        assert found == [((512 * rank, 512), 0, 1)]


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_a_ring_forwards_each_sum_in_the_next_step(size):
    """Also those that are not complete: it is for their readers to want them."""
    found = forwarded(named("ring"), size)
    assert [(made, sent) for _, made, sent in found] == [
        (step, step + 1) for step in range(size - 1)
    ]


def test_a_sum_is_relayed_to_those_who_get_it_first():
    def one_after_the_other(group):
        if group.rank == 0:
            yield (recv_reduce(group.peer(1), group.whole),)
            yield (send(group.peer(1), group.whole),)
            yield (send(group.peer(2), group.whole),)
        elif group.rank == 1:
            yield (send(group.peer(-1), group.whole),)
            yield (recv(group.peer(-1), group.whole),)
        else:
            yield (recv(group.peer(-2), group.whole),)

    assert forwarded(one_after_the_other, 3) == [((0, 1536), 0, 1)]


def changed(group):
    """What rank 0 sends is not what it has summed first."""
    if group.rank == 0:
        yield (recv_reduce(group.peer(1), group.whole),)
        yield (recv_reduce(group.peer(1), group.whole),)
        yield (send(group.peer(1), group.whole),)
    else:
        yield (send(group.peer(-1), group.whole),)
        yield (send(group.peer(-1), group.whole),)
        yield (recv(group.peer(-1), group.whole),)


def replaced(group):
    """What rank 0 sends has been received since, in part."""
    if group.rank == 0:
        yield (recv_reduce(group.peer(1), group.whole),)
        yield (recv(group.peer(1), group.chunk(1)),)
        yield (send(group.peer(1), group.whole),)
    else:
        yield (send(group.peer(-1), group.whole),)
        yield (send(group.peer(-1), group.chunk(1)),)
        yield (recv(group.peer(-1), group.whole),)


def in_part(group):
    """Rank 0 sends less than it has summed."""
    if group.rank == 0:
        yield (recv_reduce(group.peer(1), group.whole),)
        yield (send(group.peer(1), group.chunk(1)),)
    else:
        yield (send(group.peer(-1), group.whole),)
        yield (recv(group.peer(-1), group.chunk(1)),)


def at_once(group):
    """Each sends what it had before it sums."""
    yield (send(group.peer(1), group.whole), recv_reduce(group.peer(1), group.whole))


def test_only_the_last_sum_is_relayed():
    assert forwarded(changed, 2) == [((0, 1024), 1, 2)]


@pytest.mark.parametrize("schedule", [replaced, in_part, at_once])
def test_what_is_not_the_sum_is_not_relayed(schedule):
    assert forwarded(schedule, 2) == []
