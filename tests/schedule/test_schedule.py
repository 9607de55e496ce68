"""Groups and steps: the vocabulary itself."""

from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from collalgo import (
    Group,
    ScheduleError,
    pipeline,
    recv,
    recv_reduce,
    reverse,
    send,
    spare,
    together,
    verify,
)
from collalgo.schedule import Chunk, doublings, merge, pad, trace


def flat(rank, size):
    return Group.flat(rank, size)


def test_positions_and_chunks_wrap_around():
    group = flat(3, 4)
    assert (group.left, group.right) == (2, 0)
    assert group.peer(-1) == 3
    assert group.chunk(5) == group.chunk(1) == (Chunk(1, 2, 4),)
    assert group.chunks(3, 5) == (Chunk(3, 4, 4), Chunk(0, 1, 4))


def test_a_rotated_group_begins_at_its_root_and_chunks_keep_their_owners():
    group = flat(1, 4).rotated(3)
    assert group.rank == 2
    assert group.peer(0) == 3
    assert group.chunk(0) == (Chunk(3, 4, 4),)


def test_a_reordered_group_is_a_permutation():
    group = flat(2, 3).reordered([2, 0, 1])
    assert (group.rank, group.peer(1)) == (0, 0)


def test_a_subset_shares_everything_anew_and_excludes_the_others():
    assert flat(1, 4).subset([0, 2]) is None
    group = flat(2, 4).subset([0, 2])
    assert (group.rank, group.size, group.left) == (1, 2, 0)
    assert group.chunk(1) == (Chunk(1, 2, 2),)
    assert merge(group.whole) == (Chunk(0, 1, 1),)


def test_merged_teams_own_the_chunks_of_their_members():
    group = flat(2, 5).merged([(0, 1), (2, 3), (4,)])
    assert (group.rank, group.size) == (1, 3)
    assert group.chunk(1) == (Chunk(2, 3, 5), Chunk(3, 4, 5))
    assert flat(3, 5).merged([(0, 1), (2, 3), (4,)]) is None


def test_a_grid_gives_a_row_over_everything_and_a_column_over_my_chunk_of_it():
    row, column = flat(4, 6).grid(2, 3)
    assert [row.peer(i) for i in range(3)] == [3, 4, 5]
    assert [column.peer(i) for i in range(2)] == [1, 4]
    assert merge(column.whole) == merge(row.chunk(row.rank))
    assert column.chunk(0) == (Chunk(2, 3, 6),)


def test_a_grid_that_does_not_fit_is_refused():
    with pytest.raises(ScheduleError, match="4 x 2 has 8 places but the group has 6"):
        flat(0, 6).grid(2, 4)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 9])
def test_doublings_stay_below_the_size(size):
    assert doublings(size) == [d for d in (1, 2, 4, 8) if d < size]


def test_together_runs_step_by_step_on_lanes_of_their_own():
    def one(group):
        yield send(group.right)

    def two(group):
        yield recv(group.left)
        yield send(group.right), recv(group.left)

    steps = list(together(one(flat(0, 2)), two(flat(0, 2))))
    assert [[t.lane for t in step] for step in steps] == [[0, 1], [1, 1]]


def test_nested_lanes_stay_apart():
    def one(group):
        yield send(group.right)

    group = flat(0, 2)
    inner = together(one(group), one(group))
    lanes = [t.lane for step in together(inner, one(group)) for t in step]
    assert len(set(lanes)) == 3


def test_what_is_not_a_step_is_refused():
    def wrong(group):
        yield "send"

    with pytest.raises(ScheduleError, match="yielded 'send'"):
        trace(wrong, 0, 2)


def test_a_step_may_leave_out_transfers():
    def sparse(group):
        yield None, send(group.right), None
        yield ()

    assert [len(step) for step in trace(sparse, 0, 2)] == [1, 0]


def test_pipelined_schedules_begin_one_step_after_the_other_on_two_lanes():
    def one(group):
        yield send(group.right)
        yield send(group.right)

    group = flat(0, 2)
    lanes = [[t.lane for t in s] for s in pipeline(one(group), one(group), one(group))]
    assert lanes == [[0], [0, 1], [1, 0], [0]]


def test_in_reverse_what_was_sent_is_received():
    def forth(group):
        yield send(group.right, group.chunk(0))
        yield recv(group.left, group.chunk(1)), send(group.right, group.chunk(2))

    group = flat(0, 3)
    first, last = reverse(forth(group))
    assert first == (send(2, group.chunk(1)), recv_reduce(1, group.chunk(2)))
    assert last == (recv_reduce(1, group.chunk(0)),)
    assert list(reverse(forth(group), combine=False))[1] == (recv(1, group.chunk(0)),)


def test_lasting_schedules_end_idle():
    def one(group):
        yield send(group.right)

    assert [bool(step) for step in pad(3, one(flat(0, 2)))] == [True, False, False]
    assert list(pad(2)) == [(), ()]


def test_shares_cut_everything_and_segments_every_chunk():
    group = flat(1, 2)
    assert [share.chunk(1) for share in group.shares(2)] == [
        (Chunk(1, 2, 4),),
        (Chunk(3, 4, 4),),
    ]
    assert [part.chunk(1) for part in group.segments(2)] == [
        (Chunk(2, 3, 4),),
        (Chunk(3, 4, 4),),
    ]
    first, second = group.segments(2)
    assert first.block(0, 1) == Chunk(2, 3, 8)
    assert second.block(0, 1) == Chunk(3, 4, 8)
    assert second.segments(2)[1].block(0, 1) == Chunk(7, 8, 16)


def test_other_views_of_a_group():
    group = flat(2, 5).rotated(3)
    assert (group.me, group.rank, group.position(0)) == (2, 4, 2)
    assert [group.natural.peer(i) for i in range(5)] == [0, 1, 2, 3, 4]
    assert group.natural.rank == 2
    assert [group.reversed.peer(i) for i in range(5)] == [3, 2, 1, 0, 4]
    assert group.seen_from(0).me == 3
    assert group.tokens.whole == group.tokens.chunk(1) == ()
    assert group.chunks_of([2, 0]) == (Chunk(3, 4, 5), Chunk(0, 1, 5))
    assert group.block(0, 1) == Chunk(19, 20, 25)


def test_chunks_of_a_rotated_group_are_few():
    """Runs that touch are one chunk, so that messages have few pieces."""
    group = flat(0, 8).rotated(3)
    assert group.chunks(0, 8) == (Chunk(3, 8, 8), Chunk(0, 3, 8))
    assert group.whole == (Chunk(0, 1, 1),)
    assert group.chunks(4, 6) == (Chunk(7, 8, 8), Chunk(0, 1, 8))


def test_chunks_of_several_buffers_are_never_one_message():
    def mixed(group):
        chunks = (*group.chunk(0), *spare(group.chunk(1)))
        yield send(group.right, chunks), recv(group.left, chunks)

    with pytest.raises(ScheduleError, match="lie in several buffers"):
        verify(mixed, size=2, collective="allreduce")


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(1, 6), st.integers(1, 4)), max_size=6
    )
)
def test_merged_chunks_are_the_same_piece_however_they_are_cut(cuts):
    cells = {i for start, width, _ in cuts for i in range(start, start + width)}
    plain = [Chunk(i, i + 1, 12) for i in cells]
    finer = [chunk.piece(i, 3) for chunk in plain for i in range(3)]
    assert merge(finer) == merge(plain)
    covered = sum(Fraction(c.stop - c.start, c.parts) for c in merge(plain))
    assert covered == Fraction(len(cells), 12)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 17])
@pytest.mark.parametrize("verb", [send, recv, recv_reduce])
def test_chunks_may_be_given_in_lists_and_nested(verb, size):
    group = Group.flat(0, size)
    wanted = verb(1, (*group.chunk(0), *group.chunk(1)))
    assert verb(1, [group.chunk(0), group.chunk(1)]) == wanted
    assert verb(1, (group.chunk(0), group.chunk(1))) == wanted
    assert verb(1, [*group.chunk(0), group.chunk(1)]) == wanted
    (only,) = group.chunk(0)
    assert verb(1, only) == verb(1, [only]) == verb(1, group.chunk(0))


@pytest.mark.parametrize("chunks", [3, [3], "0", ["0"], [[None]], 1.5])
@pytest.mark.parametrize("verb", [send, recv, recv_reduce])
def test_what_is_no_chunk_is_refused(verb, chunks):
    with pytest.raises(ScheduleError, match=r"is not a chunk; pass group\.chunk"):
        verb(1, chunks)
