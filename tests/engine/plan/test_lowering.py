"""Lowering: the bytes that leave one rank are those that the other expects."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import ALGORITHMS, ScheduleError
from collalgo.algorithms import ring
from collalgo.algorithms.catalogue import find
from collalgo.engine.plan.chunk_pipelining import Slicing
from collalgo.engine.plan.layout import Layout, Marks, Span
from collalgo.engine.plan.reduce_forward import NONE
from collalgo.engine.plan.rows import OUTPUT, SCRATCH
from collalgo.engine.plan.template import TemplateKey
from collalgo.schedule import (
    recv,
    recv_reduce,
    send,
    together,
)

BIG, CACHE_LINE = 3 * 2**31 + 5, 64


def templates(schedule, size):
    return [
        TemplateKey("allreduce", schedule, rank, size).template()
        for rank in range(size)
    ]


def plans(schedule, layout):
    return [template.plan(layout) for template in templates(schedule, layout.blocks)]


def messages(plans_, nbytes=BIG * 8):
    """The pieces of each message by channel, as sent and as received."""
    size = len(plans_)
    sent, received = defaultdict(list), defaultdict(list)
    for rank, plan in enumerate(plans_):
        for first, first_receive, end in plan.steps:
            for number in range(first, end):
                piece, end_piece, channel, end_channel = plan.messages[number][:4]
                pieces = [  # spares are copies of the buffer
                    (row[0] % nbytes if nbytes else 0, row[1])
                    for row in plan.pieces[piece:end_piece]
                ]
                for each in plan.channels[channel:end_channel]:
                    lane, peer = divmod(int(each), size)
                    if number < first_receive:
                        sent[rank, peer, lane].append(joined(pieces))
                    else:
                        received[peer, rank, lane].append(joined(pieces))
    return sent, received


def joined(pieces):
    """The runs of bytes of a message, however they were cut."""
    runs = []
    for offset, nbytes in pieces:
        if runs and sum(runs[-1]) == offset:
            runs[-1] = runs[-1][0], runs[-1][1] + nbytes
        else:
            runs.append((int(offset), int(nbytes)))
    return runs


def both_ways(group):
    there, back = group.shares(2)
    yield from together(ring.allreduce(there), ring.allreduce(back.reversed))


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_what_is_sent_is_what_is_received(size):
    schedules = [
        row.schedule
        for row in ALGORITHMS
        if row.obstacle(size) is None and row.collective != "alltoall"
    ]
    for schedule in (*schedules, both_ways):
        made = templates(schedule, size)
        for count in (0, 1, 2, 3, 7, 10, 1000, 100_000, BIG):
            layout = Layout(count, 4, size)
            plans_ = [template.plan(layout) for template in made]
            sent, received = messages(plans_, count * 4)
            assert sent == received, (schedule, count)


@pytest.mark.parametrize("size", [2, 3, 7])
def test_nothing_is_sent_for_no_elements(size):
    sent, _ = messages(plans(ring.allreduce, Layout(0, 4, size)))
    assert not sent


def test_offsets_of_big_counts_are_exact():
    plan = plans(ring.allreduce, Layout(BIG, 8, 7))[3]
    assert plan.pieces.dtype == np.int64
    assert plan.pieces[:, :2].sum(axis=1).max() == BIG * 8


@settings(max_examples=200)
@given(
    marks=st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.integers(1, 3))
    ),
    cut=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_marks_are_an_array_of_labels(marks, cut):
    plain, compact = np.zeros(20, int), Marks(0)
    for a, b, label in marks:
        span = Span(min(a, b), max(a, b))
        plain[span.start : span.stop] = label
        compact.mark(span, label)
    span = Span(min(cut), max(cut))
    pieces = list(compact.cut(span))
    assert [
        x for part, label in pieces for x in [label] * (part.stop - part.start)
    ] == (plain[span.start : span.stop].tolist())
    assert all(part.start < part.stop for part, _ in pieces)


def test_partial_sums_that_belong_to_others_go_to_scratch():
    layout = Layout(300, 4, 3, (100, 100, 100))
    key = TemplateKey("reduce_scatter", ring.reduce_scatter, 1, 3)
    plan = key.template().plan(layout)
    received = plan.pieces[plan.messages[plan.steps[:, 1], 0]]
    assert received[:, 4].tolist() == [SCRATCH, OUTPUT]
    assert received[:, 5].tolist() == [0, 0]
    assert plan.scratch_bytes == 400


def test_slices_share_their_scratch():
    layout = Layout(3000, 4, 3, (1000, 1000, 1000))
    key = TemplateKey("reduce_scatter", ring.reduce_scatter, 1, 3)
    plan = key._replace(slicing=Slicing(4, 3)).template().plan(layout)
    lines = -(-4000 // CACHE_LINE)
    assert plan.scratch_bytes == -(-lines // 4) * CACHE_LINE


def test_one_chunk_for_many_peers_is_posted_once():
    def spread(group):
        if group.rank == 0:
            yield tuple(send(peer, group.whole) for peer in (1, 2, 3))

    plan = plans(spread, Layout(1000, 4, 4))[0]
    assert plan.steps.tolist() == [[0, 1, 1]]
    assert plan.channels.tolist() == [1, 2, 3]


def test_too_many_lanes_are_refused():
    def wide(group):
        yield from together(*(ring.allgather(group) for _ in range(9)))

    with pytest.raises(ScheduleError, match="uses lane 8 but there are only 8 lanes"):
        plans(wide, Layout(1000, 4, 2))


def test_what_is_reduced_at_once_must_be_equal_from_every_peer():
    def partly_equal(group):
        if group.rank == 2:
            yield (
                recv_reduce(0, group.chunk(0)),
                recv_reduce(1, group.chunks(0, 2)),
            )

    with pytest.raises(ScheduleError, match=r"rank 2 receives parts 0 to .*two steps"):
        plans(partly_equal, Layout(30, 4, 3))


def test_a_swap_of_partial_sums_reads_before_it_overwrites():
    """What leaves scratch may look like what comes into it: same bytes, same peer."""

    def swap(group):
        peer = 1 - group.rank
        for _ in range(2):
            yield send(peer, group.whole), recv(peer, group.whole)

    plan = TemplateKey("reduce", swap, 0, 2, root=1).template().plan(Layout(9, 4, 2))
    for _, receive, _ in plan.steps:
        first_hazard, end_hazard = plan.messages[receive, 5:7]
        assert end_hazard - first_hazard == 1


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("name", ["ring", "circulant", "pipeline"])
def test_a_rank_alone_on_its_host_runs_the_same_rows_and_lends_nothing(name, size):
    schedule = find("allreduce", name, size).schedule
    for rank in range(size):
        one_host = TemplateKey("allreduce", schedule, rank, size).template()
        key = TemplateKey("allreduce", schedule, rank, size, hosts=tuple(range(size)))
        alone = key.template()
        for table in ("pieces", "runs", "borders", "copies", "divisions"):
            assert (getattr(alone, table) == getattr(one_host, table)).all()
        assert len(alone.direct) == len(alone.messages) == len(alone.forwards)
        assert not alone.direct.any()
        assert (alone.forwards == NONE).all()
