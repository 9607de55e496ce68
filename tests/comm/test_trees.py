"""Calls on several arrays at once: lists, tuples and dictionaries of them."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

from collalgo import MismatchError, threads
from collalgo._kernels.comm import tree_call
from collalgo.comm.current import runner_of
from collalgo.comm.tree import leaves_of, rebuilt

Layer = namedtuple("Layer", "weights bias")

#: Elements of a long array, which has a call of its own.
LONG = 20_000


def model(scale):
    """Arrays of several dtypes and layouts in a structure."""
    table = np.full((4, 6), scale, np.float32)
    return {
        "layers": [
            Layer(np.full((3, 5), scale, np.float32), np.full(5, scale, np.float64)),
            Layer(table[:, ::2], np.full((), scale, np.float32)),
        ],
        "steps": np.full(2, scale, np.int64),
        "empty": np.empty((0, 3)),
        "nothing": None,
        "long": (np.full(LONG, scale, np.float64),),
    }


def values(tree):
    return [np.asarray(leaf) for leaf in leaves_of(tree)]


def check(tree, wanted):
    for found in values(tree):
        assert (found == wanted).all()


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_structure_of_arrays_is_reduced_in_one_call(size):
    total = size * (size + 1) // 2

    def on_each_rank(comm):
        mine, out = model(comm.rank + 1), model(0)
        before = comm._runner.call_number
        assert comm.allreduce(mine, out=out) is out
        assert comm._runner.call_number == before + 1
        check(out, total)
        check(mine, comm.rank + 1)
        assert comm.allreduce(mine, "max") is mine
        check(mine, size)
        assert comm.allreduce(mine, "sum", reproducible=True) is mine
        check(mine, size * size)
        found = comm.reduce(model(comm.rank + 1), root=size - 1)
        if comm.rank == size - 1:
            check(found, total)
        else:
            assert found is None

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("size", [1, 3])
def test_a_structure_of_arrays_is_moved_in_one_call(size):
    def on_each_rank(comm):
        mine = model(comm.rank + 1)
        assert comm.broadcast(mine, size - 1) is mine
        check(mine, size)
        mine = model(comm.rank)
        rows = comm.allgather(mine)
        assert type(rows["layers"][0]) is Layer
        assert rows["layers"][1].bias.shape == (size,)
        assert rows["empty"].shape == (size, 0, 3)
        assert rows["nothing"] is None
        for row in range(size):
            check([leaf[row] for leaf in leaves_of(rows)], row)
        again = model(0)
        out = comm.allgather(again, out=rebuilt(rows, iter(values(rows))))
        check(out, 0)

    threads(on_each_rank, size, timeout=60)


def test_structures_in_the_background_and_persistent():
    def on_each_rank(comm):
        mine, other = model(comm.rank + 1), model(1)
        works = [comm.allreduce_async(mine), comm.allreduce_async(mine["layers"])]
        assert comm.allreduce(other) is other  # after those
        assert works[0].wait() is mine
        works[1].wait()
        check(mine["layers"], 18)
        check(mine["long"], 6)
        check(other, 3)
        rows = comm.allgather_async(model(comm.rank)).wait()
        check([leaf[2] for leaf in leaves_of(rows)], 2)
        ones = model(1)
        prepared = comm.persistent_allreduce(ones)
        for times in (1, 2):
            assert prepared() is ones
            check(ones, 3**times)

    threads(on_each_rank, 3, timeout=60)


def test_small_arrays_of_a_dtype_share_a_message():
    def on_each_rank(comm):
        recorder = runner_of(comm).recorder
        before = recorder.count
        comm.allreduce([np.ones(n) for n in range(40)])
        assert recorder.count == before + 1
        comm.allreduce([np.ones(3), np.ones(3, "f4"), np.ones(4), np.ones(4, "f4")])
        assert recorder.count == before + 3
        comm.broadcast([np.ones(3), np.ones(3, "f4"), np.ones(3, "S7")])
        assert recorder.count == before + 4

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize("way", ["foreign", "out"])
def test_places_are_named_once_for_all_arrays(monkeypatch, way):
    named = []
    monkeypatch.setattr(
        tree_call, "names_of", lambda tree: named.append(1) or [""] * 50
    )
    buf = [np.ones(4) for _ in range(50)]
    out = [np.empty(4) for _ in range(50)] if way == "out" else None
    if way == "foreign":
        buf = [memoryview(leaf) for leaf in buf]
    threads(lambda comm: comm.allreduce(buf, out=out), 1, timeout=60)
    assert len(named) <= 1


def test_means_of_integers_and_ops_of_the_user_take_structures():
    def on_each_rank(comm):
        tree = {"a": np.array([comm.rank, 5]), "b": np.array([2 * comm.rank])}
        comm.allreduce(tree, "avg")
        assert (tree["a"].tolist(), tree["b"].tolist()) == ([1, 5], [2])
        pairs = [np.array([(1.5, comm.rank)], "f4,i8"), np.array([(0.5, 7)], "f4,i8")]
        comm.allreduce(pairs, "minloc")
        assert [pair.tolist() for pair in pairs] == [[(1.5, 0)], [(0.5, 7)]]
        swapped = [np.array([1, 2], ">i4"), np.array([comm.rank], ">i4")]
        comm.allreduce_async(swapped, "sum").wait()
        assert [each.tolist() for each in swapped] == [[3, 6], [3]]

    threads(on_each_rank, 3, timeout=60)


def test_keys_may_be_of_several_types():
    def of_several_types(comm):
        keys = ["a", 1, 2.5, "b", (3,)]
        tree = {key: np.ones(2) for key in (keys[::-1] if comm.rank else keys)}
        comm.allreduce(tree)
        assert all(leaf[0] == 2 for leaf in tree.values())

    threads(of_several_types, 2, timeout=60)


def test_dictionaries_in_any_order_agree_and_other_keys_do_not():
    def in_any_order(comm):
        keys = ["b", "a"] if comm.rank else ["a", "b"]
        tree = OrderedDict((key, np.full(2, ord(key))) for key in keys)
        comm.allreduce(tree)
        assert list(tree) == keys
        assert (tree["a"][0], tree["b"][0]) == (2 * ord("a"), 2 * ord("b"))

    threads(in_any_order, 2, timeout=60)

    def other_keys(comm):
        comm.allreduce({"x": np.ones(2), "yz"[comm.rank]: np.ones(2)})

    with pytest.raises(
        MismatchError, match=r"at \['y'\] where .* one at \['z'\]|'z'.*'y'"
    ):
        threads(other_keys, 2, timeout=60)

    def other_shapes(comm):
        comm.allreduce([np.ones(2 + comm.rank), np.ones(3 - comm.rank)])

    with pytest.raises(MismatchError, match=r"of 2\+3.*of 3\+2|of 3\+2.*of 2\+3"):
        threads(other_shapes, 2, timeout=60)


def read_only():
    found = np.ones(2)
    found.flags.writeable = False
    return found


ONE = np.ones(4)


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda c: c.allreduce([1.0, 2.0]), TypeError, r"buf\[0\]: needs.*float; wrap"),
        (
            lambda c: c.allreduce({"a": [np.ones(1), "x"]}),
            TypeError,
            r"buf\['a'\]\[1\]",
        ),
        (lambda c: c.allreduce([ONE, ONE]), ValueError, r"\[0\].*\[1\]|\[1\].*\[0\]"),
        (lambda c: c.allreduce([ONE[1:], ONE[:2]]), ValueError, "shares memory"),
        (lambda c: c.allreduce([read_only()]), ValueError, r"buf\[0\] is read-only"),
        (
            lambda c: c.allreduce([ONE, np.ones(1)], out=[np.ones(4)]),
            ValueError,
            r"out has 1 arrays and buf has 2, and they differ at \[1\]",
        ),
        (
            lambda c: c.allreduce([ONE, np.ones(4)], out=[np.ones(4), ONE]),
            ValueError,
            r"out\[1\] shares memory with the array at \[0\]",
        ),
        (
            lambda c: c.allreduce([ONE], out=[np.ones(3)]),
            ValueError,
            r"out\[0\]: out has shape \(3,\)",
        ),
        (lambda c: c.scan([np.ones(1)]), TypeError, "wrap it with"),
    ],
)
def test_wrong_structures_are_refused_by_the_place(call, kind, text):
    def alone(comm):
        with pytest.raises(kind, match=text):
            call(comm)
        assert comm.allreduce([np.ones(1)])[0] == 1
        assert comm.allreduce([]) == []

    threads(alone, 1, timeout=60)


def test_interleaved_views_are_no_overlap():
    def on_each_rank(comm):
        table = np.ones(8)
        comm.allreduce([table[::2], table[1::2]])
        assert (table == 2).all()

    threads(on_each_rank, 2, timeout=60)
