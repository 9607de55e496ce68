"""Numbers of rows are checked alike in every form, and are never rounded."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo.base.integers import INT64_MAX
from collalgo.engine.counts import check_counts, check_table

NUMBERS = st.one_of(
    st.integers(0, 1000),
    st.sampled_from([-1, 2**53 + 1, INT64_MAX, 2**63, -(2**64), 2**64, 10**30]),
    st.booleans(),
    st.sampled_from([np.int8(3), np.uint64(2**63), np.float64(2), 1.5, None, "1"]),
)


def outcome(check, *arguments):
    """The result of a check in lists, or the text of its error."""
    try:
        found = check(*arguments)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return found if isinstance(found, list) else found.tolist()


@given(st.lists(NUMBERS, max_size=4), st.integers(1, 3))
def test_a_list_of_counts_is_checked_as_an_iterator_is(counts, size):
    one_by_one = outcome(check_counts, iter(counts), size, "allgatherv")
    assert outcome(check_counts, counts, size, "allgatherv") == one_by_one
    if isinstance(one_by_one, list):
        assert one_by_one == [int(count) for count in counts]
        assert len(counts) == size
        assert all(0 <= n <= INT64_MAX for n in one_by_one)


@given(
    st.integers(1, 3).flatmap(
        lambda n: st.lists(NUMBERS, min_size=n * n, max_size=n * n)
    )
)
def test_a_table_of_counts_is_checked_as_an_array_of_objects_is(numbers):
    size = int(len(numbers) ** 0.5)
    table = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    objects = np.empty((size, size), object)
    objects[:] = table
    found = outcome(check_table, table, "alltoallv")
    assert found == outcome(check_table, objects, "alltoallv")
    if isinstance(found, list):
        assert found == [[int(count) for count in row] for row in table]


def test_rows_of_different_lengths_are_no_table():
    with pytest.raises(ValueError, match="neither a list of numbers of rows nor"):
        check_table([[1, 2], [3]], "alltoallv")


@pytest.mark.parametrize("counts", [
    np.array(2), np.ones(2, bool), b"\2\2", bytearray(2), "22", {2: 2}, {1, 2}, 2, None,
])  # fmt: skip
def test_what_is_no_row_of_integers_is_refused_by_every_call(counts):
    with pytest.raises(TypeError, match=r"allgatherv: .*pass"):
        check_counts(counts, 2, "allgatherv")
    if not np.ndim(counts) and isinstance(counts, int | np.ndarray):
        return  # of the wrong shape, which the caller of check_table refuses
    with pytest.raises(TypeError, match=r"alltoallv: .*pass"):
        check_table(counts, "alltoallv")


def test_counts_may_come_from_an_iterator():
    assert check_counts(iter([1, 2]), 2, "allgatherv") == [1, 2]
    assert check_table(iter([1, 2]), "alltoallv").tolist() == [1, 2]
    assert check_table(iter([[1, 2], [3, 4]]), "alltoallv").tolist() == [[1, 2], [3, 4]]
