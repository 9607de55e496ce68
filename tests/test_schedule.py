"""Groups and steps: the vocabulary itself."""

import pytest

from collalgo import Group, ScheduleError, recv, send, together
from collalgo.schedule import Chunk, doublings, merge, trace


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
