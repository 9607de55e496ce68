"""Structures of arrays that differ between ranks, or that no call can take."""

import numpy as np
import pytest

from collalgo import MismatchError, threads


def equal():
    return [np.ones(2, "f4"), np.ones(2, "f4")]


@pytest.mark.parametrize(
    ("call", "own", "words"),
    [
        (
            "allreduce",
            [np.ones(2, "f4"), np.ones(2)],
            ["2 float32+2 float64", "2+2 elements of float32"],
        ),
        (
            "allreduce",
            [np.ones(2), np.ones(2, "f4")],
            ["2 float64+2 float32", "2+2 elements of float32"],
        ),
        ("allreduce", [np.ones(2, "f4")], ["2 elements of float32", "2+2 elements"]),
        ("allreduce", np.ones(4, "f4"), ["one array of 4 elements", "2+2 elements"]),
        (
            "allgather",
            [np.ones(2, "f4"), np.ones(2)],
            ["2 float32+2 float64", "2 float32+2 float32"],
        ),
        (
            "allreduce",
            {"a+1": np.ones(2, "f4"), "b": np.ones(2, "f4")},
            ["float32 with keys"],
        ),
    ],
)
def test_the_difference_between_structures_is_named(call, own, words):
    def on_each_rank(comm):
        with pytest.raises(MismatchError, match="same shapes and dtypes") as caught:
            getattr(comm, call)(own if comm.rank == 1 else equal())
        assert all(word in str(caught.value) for word in words)
        assert caught.value.missing

    threads(on_each_rank, 3, timeout=60)


def test_a_structure_without_arrays_is_named():
    def on_each_rank(comm):
        with pytest.raises(MismatchError, match="passed no arrays"):
            comm.broadcast({} if comm.rank == 1 else equal())
            comm.barrier()  # as rank 1 has had nothing to wait for

    threads(on_each_rank, 2, timeout=60)


@pytest.mark.parametrize("dtype", ["f8", "i4"])
def test_a_dtype_that_differs_at_a_key_is_named(dtype):
    def on_each_rank(comm):
        own = dtype if comm.rank == 1 else "f4"
        tree = {"a": np.ones(2, "f8"), "b": np.ones(3, own)}
        with pytest.raises(MismatchError, match="same shapes and dtypes") as caught:
            comm.allreduce(tree)
        return str(caught.value)

    (words,) = set(threads(on_each_rank, 3, timeout=60))
    assert "passed arrays of 2 float64+3 float32 with keys" in words
    other = "2+3 elements of float64" if dtype == "f8" else "2 float64+3 int32"
    assert f"passed arrays of {other} with keys" in words


def test_calls_on_arrays_of_several_dtypes_still_agree():
    def on_each_rank(comm):
        for order in (1, -1):
            tree = [np.ones(3, "f4"), np.ones(2), np.ones(20000), np.ones(1, "f4")]
            found = comm.allreduce(tree[::order])
            assert all((each == 2).all() for each in found)

    threads(on_each_rank, 2, timeout=60)


def test_long_structures_are_named_by_their_first_arrays():
    def on_each_rank(comm):
        tree = {f"layer{i}": np.ones(i) for i in range(1, 90)}
        tree["layer70" if comm.rank else "layer70a"] = tree.pop("layer70")
        with pytest.raises(
            MismatchError, match=r"of 1\+10\+\.\.\. e.*, of which later"
        ):
            comm.allreduce(tree)

    threads(on_each_rank, 2, timeout=60)


class Key:
    """A key that shows an address, as objects without a text of their own do."""

    def __init__(self, address):
        self.address = address

    def __repr__(self):
        return f"<Key object at 0x{self.address}>"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            (Key("7f59aaaaaaaa"), Key("7f60aaaaaaaa")),
            r"at \[<Key object at 0x7f.* where .*0x7f.* same keys, as strings or num",
        ),
        (
            (Key(f"{7:040}"), Key(f"{8:040}")),
            r"arrays of 2\+\.\.\. elements of float64 with keys, .*, as strings or num",
        ),
        (
            ("a" * 50, "a" * 49),
            r"arrays of 2\+\.\.\. .* with keys, of which later ones or their keys dif",
        ),
    ],
)
def test_keys_that_differ_are_no_algorithms(keys, words):
    def on_each_rank(comm):
        with pytest.raises(MismatchError, match=words):
            comm.allreduce({keys[comm.rank]: np.ones(2)})

    threads(on_each_rank, 2, timeout=60)


def test_lengths_differ_though_their_keys_are_cut():
    def on_each_rank(comm):
        with pytest.raises(MismatchError, match="same shapes and dtypes"):
            comm.allreduce({"a" * 50: np.ones(3 if comm.rank else 3000)})

    threads(on_each_rank, 2, timeout=60)


def endless(kind):
    """A structure that contains itself, or has many levels."""
    tree = {} if kind == "dict" else []
    if kind == "dict":
        tree["a"] = tree
    elif kind == "list":
        tree.append(tree)
    for _ in range(5000 * (kind == "deep")):
        tree = [tree]
    return tree


@pytest.mark.parametrize("kind", ["list", "dict", "deep"])
def test_structures_that_contain_themselves_are_refused(kind):
    tree = endless(kind)

    def refused(call, *args, **named):
        with pytest.raises(
            ValueError, match=r"more than 100 levels|no arrays that can"
        ):
            call(*args, **named)

    def on_each_rank(comm):
        for call in (comm.allreduce, comm.reduce, comm.broadcast, comm.allgather):
            refused(call, tree)
        refused(comm.allreduce, [np.ones(4)], out=[tree])
        refused(comm.broadcast, tree, like=None)
        if comm.rank:
            refused(comm.broadcast, None, like=tree)
        assert comm.allreduce([np.ones(1)])[0] == 2

    threads(on_each_rank, 2, timeout=60)
