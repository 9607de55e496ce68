"""Values that change with the size of a call are looked up in tables."""

import numpy as np
from hypothesis import given, strategies as st

from collalgo.cost.by_size import BORDERS, BySize


@given(
    steps=st.binary(min_size=len(BORDERS), max_size=len(BORDERS)),  # drawn at once
    nbytes=st.one_of(st.sampled_from(BORDERS.tolist()), st.integers(0, 1 << 50)),
    shift=st.integers(-2, 2),
)
def test_a_size_has_the_value_of_the_next_border(steps, nbytes, shift):
    steps = [step % 4 for step in steps]
    table, nbytes = BySize.from_table(np.array(steps)), max(nbytes + shift, 0)
    value, least, limit = table.at(nbytes)
    assert least <= nbytes < limit
    above = [
        one for border, one in zip(BORDERS, steps, strict=True) if border >= nbytes
    ]
    assert value == (above or steps[-1:])[0]
    assert table.at(least) == (value, least, limit)
    if least:
        assert table.at(least - 1)[0] != value
        assert table.at(least - 1)[2] == least


@given(
    values=st.dictionaries(st.integers(1, 40), st.integers(0, 2)),
    first=st.integers(0, 2),
    nbytes=st.integers(0, 50),
)
def test_a_size_has_the_value_of_the_border_below(values, first, nbytes):
    values = {0: first, **dict(sorted(values.items()))}
    table = BySize.from_borders(list(values), values.get)
    value, least, limit = table.at(nbytes)
    assert least <= nbytes < limit
    assert value == values[max(border for border in values if border <= nbytes)]
    assert not least or table.at(least - 1)[0] != value
    assert table.at(least) == (value, least, limit)


def test_powers_of_two_are_borders():
    assert {1 << power for power in range(42)} <= set(BORDERS.tolist())
