"""Transfers as columns of numbers, link loads, and the sums of prices."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from collalgo._kernels.cost.loads import largest_sums, loads_of
from collalgo.cost.messages import messages_of
from collalgo.schedule import Chunk, Kind, Transfer, recv, recv_reduce, send


def test_columns_have_each_transfer_with_another_rank():
    half, quarters = (Chunk(0, 1, 2),), (Chunk(0, 1, 4), Chunk(2, 3, 4))
    steps = [
        (send(1, half), recv(2, quarters)._replace(lane=3)),
        (send(0, half), recv(0, half)),
        (),
        (recv_reduce(2, half), send(1)),
    ]
    found = messages_of([(0, steps), (7, [(recv(6, half),)])])
    assert found.step.tolist() == [0, 0, 3, 3, 0]
    assert found.rank.tolist() == [0, 0, 0, 0, 7]
    assert found.kind.tolist() == [0, 1, 2, 0, 1]
    assert found.peer.tolist() == [1, 2, 2, 1, 6]
    assert found.lane.tolist() == [0, 3, 0, 0, 0]
    assert found.share.tolist() == [0.5, 0.5, 0.5, 0.0, 0.5]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1000])
def test_columns_have_a_row_for_each_traced_transfer(count):
    found = messages_of([(0, [(send(1 + i),) for i in range(count)])])
    assert found.step.tolist() == [*range(count)]
    assert found.peer.tolist() == [*range(1, count + 1)]


@pytest.mark.parametrize(
    "broken",
    [
        Transfer(Kind.SEND, 1, (0,)),
        Transfer(Kind.SEND, 1, 5),
        Transfer(Kind.SEND, None, ()),
    ],
)
def test_columns_of_other_objects_than_transfers_are_an_error(broken):
    with pytest.raises(TypeError):
        messages_of([(0, [(broken,)])])


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 9), st.integers(0, 4))),
    st.integers(1, 9),
)
def test_the_largest_sum_of_each_step_is_that_of_the_first_such_column(rows, segments):
    sums = Counter()
    for step, column, weight in rows:
        for segment in range(segments):
            sums[step + segment, column] += weight
    expected = []
    for step in range(6 + segments - 1):
        here = {column: total for (at, column), total in sums.items() if at == step}
        most = max(here.values(), default=0)
        first = min((c for c, total in here.items() if total == most), default=-1)
        expected.append((most, first if most else -1))
    columns = np.array(rows, np.int64).reshape(-1, 3).T.copy()
    found = largest_sums(*columns[:2], columns[2].astype(float), 6, segments)
    assert [*zip(*(each.tolist() for each in found), strict=True)] == expected


def test_without_steps_nothing_is_the_largest():
    nothing = np.zeros(0, np.int64)
    for segments in (1, 4):
        most, which = largest_sums(nothing, nothing, None, 0, segments)
        assert (len(most), len(which)) == (0, 0)


@given(st.lists(st.integers(0, 3)))
def test_link_loads_are_those_of_the_route_of_each_message(routes):
    links, parts = np.array([7, 8, 9, 7]), np.array([1.0, 0.5, 0.5, 1.0])
    lengths, first = np.array([1, 0, 2, 1]), np.array([0, 1, 1, 3])
    expected = [
        (i, int(links[leg]), float(parts[leg]))
        for i, route in enumerate(routes)
        for leg in range(first[route], first[route] + lengths[route])
    ]
    found = loads_of(np.array(routes, np.int64), lengths, first, links, parts)
    assert [*zip(*(each.tolist() for each in found), strict=True)] == expected
