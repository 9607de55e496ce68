"""The quick way of a commit: it finds what the usual one finds, or nothing."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo._kernels.elastic.commits import copy_again, flatten_again
from collalgo.elastic import State

#: Values of a state, usual ones and odd ones.
VALUES = st.one_of(
    st.sampled_from([0, 1, True, False, 1.0, float("inf"), "", "a", None, 1 << 70]),
    st.sampled_from([[1], {"a": 1}, (), np.float32(2), np.float64(3), 1j]),
    st.builds(
        np.ones,
        st.sampled_from([(), (0,), (3,), (2, 2), (4,)]),
        st.sampled_from(["f4", ">f4", "i8", "f8", "?", "c8"]),
    ),
)


@settings(deadline=None)
@given(st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=2, max_size=4))
def test_a_state_is_flattened_again_as_at_first(series):
    state, names = State(a=0, b=0, c=0), "abc"
    for values in series:
        for name, value in zip(names, values, strict=True):
            setattr(state, name, value)
        skeleton, arrays = state._whole()
        last = state._committed
        again = flatten_again(state._values, last.skeleton, last.arrays)
        if again is not None:
            assert repr(again[0]) == repr(skeleton)
            assert list(map(id, again[1])) == list(map(id, arrays))
        state.commit()
        assert repr(state._committed.skeleton) == repr(skeleton)
        for found, array in zip(state._committed.arrays, arrays, strict=True):
            assert found is not array
            assert (found.tobytes(), found.dtype) == (array.tobytes(), array.dtype)


def test_a_state_of_arrays_and_numbers_is_flattened_again():
    state = State(weights=np.ones((2, 3)), step=0, note="a", best=None)
    state.step, state.note, state.best = 1, "b", 0.5
    state.weights += 1
    last = state._committed
    skeleton, arrays = flatten_again(state._values, last.skeleton, last.arrays)
    assert (skeleton, arrays) == state._whole()


@pytest.mark.parametrize("order", ["C", "F", "strided", "reversed"])
@pytest.mark.parametrize("length", [0, 1, 5, 300])
def test_arrays_of_any_layout_are_copied(order, length):
    source = np.arange(length * length, dtype="f8").reshape(length, length)
    source = {"C": source, "F": np.asfortranarray(source)}.get(
        order, np.repeat(source, 2, 1)[:, ::2] if order == "strided" else source[::-1]
    )
    target = np.zeros((length, length))
    assert copy_again([target], [source])
    assert (target == source).all()


@pytest.mark.parametrize("other", [
    np.ones((3,), "f4"), np.ones((2,), "f8"), np.ones((3, 1)), [1.0], None,
    np.ma.masked_array(np.ones(3)), np.ones(3, ">f8"),
])  # fmt: skip
def test_arrays_of_other_forms_are_left_to_others(other):
    first = np.zeros(3)
    assert not copy_again([first, np.zeros(3)], [np.ones(3), other])
    assert not copy_again([first], [])
    assert not first.any()
