"""The state of a job: commits, restores, what members give each other."""

import logging
from collections import Counter, OrderedDict, defaultdict, namedtuple
from contextlib import suppress
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from collalgo import MismatchError, PeerFailed, threads
from collalgo.elastic import State, leaves, snapshot, tree

SIZES = [1, 2, 3, 5, 7, 8]

plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.complex_numbers(allow_nan=False),
    st.builds(np.float32, st.floats(width=32)), st.builds(np.int8, st.integers(-9, 9)),
)  # fmt: skip
arrays = st.builds(
    lambda shape, dtype: np.arange(np.prod(shape)).reshape(shape).astype(dtype),
    st.sampled_from([(), (0,), (3,), (2, 0, 1), (2, 3)]),
    st.sampled_from(["f4", ">f8", "i1", "?", "c16", "f2"]),
)
values = st.recursive(
    plain | arrays,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    ),
    max_leaves=8,
)


def same(one, other):
    """Whether two trees have the same types and the same bits."""
    return (
        (
            type(one) is type(other)
            and tree.flatten(one, "")[0] == tree.flatten(other, "")[0]
        )
        or repr(one) == repr(other)
    ) and all(
        a.tobytes() == b.tobytes()
        for a, b in zip(*(tree.flatten(v, "")[1] for v in (one, other)), strict=True)
    )


@given(values)
@settings(max_examples=30)
def test_a_tree_is_taken_apart_and_put_together(value):
    skeleton, found = tree.flatten(value, "it")
    again = tree.decode(tree.encode(skeleton), "a test")
    parts = iter([each.copy() for each in found])
    assert same(tree.unflatten(again, lambda: next(parts)), value)
    forms = [leaves.form_of(each) for each in found]
    assert list(tree.forms(again)) == forms


@given(st.lists(values, min_size=2, max_size=5))
@settings(max_examples=15)
def test_what_is_restored_is_what_was_committed_last(history):
    state = State(value=history[0], step=0)
    for step, value in enumerate(history[1:], 1):
        state.value, state.step = value, step
        state.commit()
        state.value, state.step = history[0], -1
        state.restore()
        assert state.step == state.revision == step
        assert same(state.value, value)


def test_arrays_are_restored_in_place_and_committed_without_new_memory():
    weights = np.zeros(1 << 16)
    state = State(weights=weights, steps=[weights[:3], 0])
    for _ in range(3):
        state.commit()
    before = {id(a) for s in (state._committed, state._spare) for a in s.arrays}
    for number in range(4):
        weights += 1
        state.commit()
        weights[0] = -1
        state.restore()
        assert state.weights is weights
        assert (weights == number + 1).all()
    after = {id(a) for s in (state._committed, state._spare) for a in s.arrays}
    assert after == before


def test_a_commit_that_is_interrupted_leaves_the_last_one_whole(monkeypatch):
    state = State(a=np.zeros(3), b=np.zeros(3))
    state.commit()
    state.a += 1
    state.b += 1

    def copy(targets, sources):
        np.copyto(targets[0], sources[0])
        raise KeyboardInterrupt

    monkeypatch.setattr(snapshot, "copy_again", copy)
    with pytest.raises(KeyboardInterrupt):
        state.commit()
    monkeypatch.undo()
    state.restore()
    assert not state.a.any()
    assert not state.b.any()


class Optimizer:
    """What keeps and gives its arrays as they are, as the optimizers of torch."""

    def __init__(self):
        self.moments = {}

    def state_dict(self):
        return {"moments": self.moments, "lr": 0.1}

    def load_state_dict(self, found):
        self.moments = found["moments"]


def test_an_array_that_cannot_be_written_is_replaced():
    table = np.broadcast_to(1.0, (3,))
    state = State(table=table, text=[table, 1])
    state.commit()
    state.restore()
    assert state.table.tolist() == state.text[0].tolist() == [1.0, 1.0, 1.0]
    assert state.table is not table


def test_objects_load_copies_that_are_theirs():
    state = State(optimizer=Optimizer(), weights=np.ones(2))
    optimizer = state.optimizer
    optimizer.moments[0] = np.full(2, 5.0)  # which begin to exist after the first step
    state.commit()
    for _ in range(2):
        optimizer.moments[0] += 1
        state.restore()
        assert state.optimizer is optimizer
        assert (optimizer.moments[0] == 5).all()


Pair = namedtuple("Pair", "x y")
Colour = IntEnum("Colour", "RED BLUE")


@pytest.mark.parametrize(
    "value",
    [
        np.ma.array([1.0, 2.0], mask=[0, 1]),
        defaultdict(list),
        OrderedDict(a=1),
        Counter("ab"),
        Pair(1, 2),
        Colour.RED,
        type("Text", (str,), {})("a"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_come_back_as_another_class_is_refused(value):
    with pytest.raises(TypeError, match=rf"state.v is of type {type(value).__name__}"):
        State(v=value)
    state = State(v=[0])
    state.v[0] = value
    with pytest.raises(TypeError, match=r"state.v\[0\] is of type"):
        state.commit()
    state.restore()
    assert state.v == [0]


def test_what_contains_itself_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="nested deeper than 100 levels"):
        State(v=endless)


def test_names_and_kinds_that_will_not_do_are_refused():
    with pytest.raises(ValueError, match="name 'commit' is one of its own"):
        State(commit=1)
    with pytest.raises(TypeError, match=r"state.x\['a'\]\[1\] is of type set"):
        State(x={"a": [1, {2}]})
    with pytest.raises(TypeError, match="of type ndarray and dtype object"):
        State(x=np.array([{}]))
    with pytest.raises(TypeError, match="dicts of str and int keys"):
        State(x={"a": 1, (1, 2): 1})
    state = State(weights=1)
    with pytest.raises(AttributeError, match="no value 'wait'; it has weights"):
        state.wait  # noqa: B018
    with pytest.raises(AttributeError, match=r"elastic.State\(wait=...\)"):
        state.wait = 1


@pytest.mark.parametrize("size", SIZES)
def test_all_members_get_the_state_of_the_most_advanced(size):
    def on_each_rank(comm):
        newest = comm.size // 2
        state = State(w=np.full((2, 3), float(comm.rank)), names=["old"], step=0)
        if comm.rank == newest:
            state.names = ["new", {"momentum": np.arange(5)}]
            for state.step in range(1, 4):
                state.commit()
        state.sync(comm)
        state.verify(comm)
        assert (state.w == newest).all()
        assert (state.step, state.revision) == (3, 3)
        assert state.names[0] == "new"
        assert state.names[1]["momentum"].tolist() == [0, 1, 2, 3, 4]

    threads(on_each_rank, size)


@pytest.mark.parametrize(("size", "faulty"), [(3, 0), (3, 2), (5, 1)])
def test_a_member_with_other_values_is_named(size, faulty, caplog):
    def on_each_rank(comm):
        state = State(w=np.ones(100))
        state.commit()
        if comm.rank == faulty:
            state._committed.arrays[0][3] = np.nextafter(1, 2)  # a bit has flipped
        with pytest.raises(MismatchError, match=f"rank {faulty} differs .* revision 1"):
            state.verify(comm)
        state.sync(comm)
        assert (state.w == 1).all()

    with caplog.at_level(logging.WARNING, "collalgo"):
        threads(on_each_rank, size)
    assert f"the state of rank {faulty} differs from that of rank" in caplog.text


def test_states_that_begin_differently_are_no_fault(caplog):
    def on_each_rank(comm):
        state = State(w=np.full(3, comm.rank))
        state.sync(comm)
        return state.w.tolist()

    assert threads(on_each_rank, 3) == [[0, 0, 0]] * 3
    assert not caplog.text


W = "the value w, an array of float64 with shape"


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"w": np.ones(6), "step": 0}, rf"has {W} \(6,\), but that of .* {W} \(5,\);"),
        ({"w": np.ones(5, np.float32), "step": 0}, r"array of float32 .* of float64 "),
        ({"w": np.ones(5)}, "rank . has no such, but that of rank . the value step;"),
        ({"w": np.ones(5), "step": 0, "m": 1}, "value m, but that of rank . no such;"),
        ({"w": [np.ones(5)], "step": 0}, f"has the value w, but that of .* {W} "),
    ],
)
def test_a_member_that_has_made_another_state_is_refused(size, other, words):
    """The others go on, and the most advanced member decides, however few it has."""

    def on_each_rank(comm):
        is_other = comm.rank > 0
        state = State(**other) if is_other else State(w=np.ones(5), step=0)
        if not is_other:
            state.w = np.ones(9)  # arrays may change while the job runs
            state.commit()
        with suppress(PeerFailed):
            state.sync(comm)
            assert not is_other
        return state.revision

    def refused(comm):
        if comm.rank == 0:
            return on_each_rank(comm)
        with pytest.raises(MismatchError, match=words) as found:
            on_each_rank(comm)
        comm.abort("planted")
        return found.value.rank

    assert threads(refused, size) == [1, *range(1, size)]
