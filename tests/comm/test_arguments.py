"""What calls are given: integers of all types, and what is no array or no integer."""

import random
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import CollalgoError, threads
from collalgo.engine.arrays import as_array, check_apart

#: What is no rank of three, of the types of which nothing is an integer.
NO_INTEGERS = [1.5, 1.0, np.float64(1), None, "0", b"1", [0], (), {}, 1j, Fraction(1)]
NO_INTEGERS += [np.array([1]), np.array([0, 1]), np.datetime64(1, "s"), object()]
OUT_OF_RANGE = [-1, 3, 2**31, 2**63, -(2**63), 2**64, -(10**6000), np.uint64(2**64 - 1)]
ONES = [1, True, np.int8(1), np.uint64(1), np.array(1)]


def rooted(comm):
    """Calls of three ranks with a root."""
    table = np.arange(3.0)
    return {
        "broadcast": lambda root: comm.broadcast(table, root),
        "reduce": lambda root: comm.reduce(table, "max", root),
        "gather": lambda root: comm.gather(table, root),
        "gatherv": lambda root: comm.gatherv(table, [3] * 3, root),
        "scatter": lambda root: comm.scatter(
            table if root is None or root == comm.rank else table[:1], root
        ),
        "scatterv": lambda root: comm.scatterv(table, [3, 3, 3], root),
        "reduce_async": lambda root: comm.reduce_async(table, "max", root).wait(),
        "persistent_gather": lambda root: comm.persistent_gather(table, root)(),
    }


@pytest.mark.parametrize("call", rooted(None))
def test_a_root_is_a_rank_of_any_type_of_integers(call):
    def on_each_rank(comm):
        make = rooted(comm)[call]
        for wrong in NO_INTEGERS:
            with pytest.raises(TypeError, match=r"root is .*pass an integer"):
                comm.reduce(np.ones(1), "sum", wrong)
            if not isinstance(wrong, np.ndarray):
                with pytest.raises(TypeError, match=r"root is .*pass an integer"):
                    make(wrong)
        for wrong in OUT_OF_RANGE:
            with pytest.raises(ValueError, match=r"root .* is out of range; .* 0 to 2"):
                make(wrong)
        if call != "scatterv":
            for one in ONES:
                make(one)

    threads(on_each_rank, 3, timeout=60)


def of_integers(comm):
    """What takes an integer by itself, before any other rank is asked."""
    # Long: a table of calls, one a line.
    x = np.ones(3)
    return {
        "to": lambda wrong: comm.send(x, wrong),
        "isend to": lambda wrong: comm.isend(x, wrong),
        "source": lambda wrong: comm.irecv(x, [] if wrong is None else wrong),
        "tag": lambda wrong: comm.send(x, 0, wrong),
        "any tag": lambda wrong: comm.irecv(x, None, wrong),
        "color": lambda wrong: comm.split(() if wrong is None else wrong),
        "key": lambda wrong: comm.split(0, wrong),
        "group": lambda wrong: comm.group([0, wrong]),
        "groups": lambda wrong: comm.group(wrong),
        "empty": lambda wrong: comm.empty((2, wrong)),
        "limit": lambda wrong: comm.bucket(limit=wrong),
        "count": lambda wrong: comm.allgatherv(x, [3, wrong, 3]),
        "gather count": lambda wrong: comm.gatherv(x, [3, wrong, 3]),
        "scatter count": lambda wrong: comm.scatterv(x, [3, wrong, 3]),
        "reduce count": lambda wrong: comm.reduce_scatter(x, "sum", [1, wrong, 1]),
        "swap count": lambda wrong: comm.alltoallv(x, [1, wrong, 1]),
        "table": lambda wrong: comm.alltoallv(x, [[1, 1, 1], [1, 1, wrong], [1] * 3]),
        "threads": lambda wrong: threads(print, wrong),
        "spawn": lambda wrong: collalgo.spawn(print, wrong),
        "verify": lambda wrong: collalgo.verify("ring", size=wrong),
        "verify root": lambda wrong: collalgo.verify("binomial", size=3, root=wrong),
    }


@pytest.mark.parametrize("argument", of_integers(None))
def test_all_integers_are_looked_at_alike(argument):
    def on_each_rank(comm):
        make = of_integers(comm)[argument]
        for wrong in NO_INTEGERS:
            if argument in ("table", "swap count", "groups") and hasattr(
                wrong, "__len__"
            ):
                continue  # which make a table of another shape
            with pytest.raises(TypeError, match="pass"):
                make(wrong)
        for wrong in (-(10**6000), 2**63, np.uint64(2**64 - 1)):
            if argument != "groups":
                with pytest.raises(ValueError, match=r"out of range|cannot|at most"):
                    make(wrong)
        assert comm.allreduce(np.ones(1))[0] == 3  # nothing was begun

    threads(on_each_rank, 3, timeout=60)


def test_integers_of_all_types_will_do():
    def on_each_rank(comm):
        for one in ONES:
            assert comm.empty(one).shape == (1,)
            assert comm.empty((one, np.int64(3))).shape == (1, 3)
            part = comm.split(one, key=one)
            assert part.size == 3
            part.close()
            got = comm.allgatherv(np.ones(1), [one] * 3)
            assert got.tolist() == [1] * 3
            got = comm.alltoallv(np.ones(3), [one] * 3)
            assert got.tolist() == [1] * 3
        if comm.rank < 2:
            pair = comm.group(np.arange(2))
            pair.close()
        assert comm.empty(np.array([2, 3])).shape == (2, 3)
        assert comm.empty([]).shape == ()
        assert comm.empty(0).shape == (0,)

    threads(on_each_rank, np.int64(3), timeout=60)


def test_counts_of_more_bytes_than_there_are_addresses_are_refused():
    def on_each_rank(comm):
        x = np.ones((1, 2))
        most = [1, 2**61, 2**61]
        for call in (comm.allgatherv, comm.gatherv):
            with pytest.raises((ValueError, MemoryError)):
                call(x, most)
        if comm.rank == 0:
            with pytest.raises(ValueError, match="counts add up to"):
                comm.gatherv(x, most, root=1)
        with pytest.raises(ValueError, match=r"counts \[1, 1\] must be 3 numbers"):
            comm.gatherv(x, [1, 1])

    threads(partial(on_each_rank), 3, timeout=60)


def test_a_masked_array_is_refused():
    x = np.ma.masked_array([1.0, 2.0], [True, False])
    with pytest.raises(TypeError, match=r"masked array.*x\.filled\(0\)"):
        collalgo.allreduce(x, collalgo.init())


def test_who_has_no_array_is_told_what_to_pass():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(TypeError, match=r"coo_array; pass x\.toarray\(\)"):
        as_array(sparse.coo_array(np.eye(2)), "allreduce")
    with pytest.raises(TypeError, match=r"list; wrap it with numpy\.array"):
        as_array([1.0], "allreduce")
    with pytest.raises(TypeError, match="dict; use the call for objects"):
        as_array({}, "broadcast")
    with pytest.raises(TypeError, match="NoneType; also a rank that only receives"):
        as_array(None, "scatterv")
    for kind in (np.ndarray, type("A", (), {"__array_interface__": {}})):
        with pytest.raises(TypeError, match=f"{kind.__name__} is a class: pass one"):
            as_array(kind, "allreduce")
    with pytest.raises(TypeError, match="scan: NumPy cannot share the memory of"):
        as_array(kind(), "scan")
    pandas = type("Series", (), {"__module__": "pandas.core.series"})
    with pytest.raises(TypeError, match=r"Series; pass its copy x\.to_numpy"):
        as_array(pandas(), "allreduce")


def test_results_do_not_go_where_elements_share_memory():
    def on_each_rank(comm):
        spread = np.lib.stride_tricks.as_strided(np.ones(3), (4, 3), (0, 8))
        windows = np.lib.stride_tricks.as_strided(np.ones(9), (4, 3), (8, 8))
        for x in (spread, windows):
            for call in (comm.allreduce, comm.allreduce_async, comm.scan):
                with pytest.raises(ValueError, match="share their memory"):
                    call(x)
        read = np.broadcast_to(np.arange(3.0), (4, 3))
        with pytest.raises(ValueError, match="read-only"):
            comm.allreduce(read)
        got = comm.allreduce(read, out=np.empty((4, 3)))
        assert (got == comm.size * np.arange(3.0)).all()
        assert (comm.allgather(spread) == 1).all()

    threads(on_each_rank, 2, timeout=60)


def test_all_views_whose_elements_are_apart_will_do():
    dice = random.Random(3)
    whole = np.zeros((4, 5, 6))
    for _ in range(200):
        view = whole[
            tuple(
                slice(None, None, dice.choice([-3, -2, -1, 1, 2, 3])) for _ in range(3)
            )
        ]
        view = view.transpose(dice.sample(range(3), 3))
        check_apart(view, "buf", "allreduce")
        check_apart(view[:, :1], "buf", "allreduce")
        check_apart(view[..., :0], "buf", "allreduce")


#: What the fuzz takes arguments from.
ANYTHING = [*NO_INTEGERS, *OUT_OF_RANGE, *ONES, 0, 2, np.nan, "sum", "max", print]
ANYTHING += [[1, 1], [[1]], np.ones(1), np.ones(2)[::-1], np.ones((2, 2)).T]
ANYTHING += [np.ones(2, "f4"), np.ones(2, object), np.ones(2, "U3"), memoryview(b"ab")]
ANYTHING += [np.empty(0), np.array(1.0), bytearray(8), np.ones(2)[:1], float("inf")]
CALLS = [
    "allreduce",
    "reduce",
    "reduce_scatter",
    "scan",
    "exscan",
    "broadcast",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
]
NAMES = ["op", "root", "counts", "out", "algorithm", "timeout", "reproducible"]


def fuzz(seed, times):
    """Calls of a rank alone with arguments of all kinds: errors of ours, or results."""
    dice = random.Random(seed)
    ends = (TypeError, ValueError, CollalgoError, MemoryError)
    comm = collalgo.init()
    for _ in range(times):
        name = dice.choice(["", "", "persistent_"]) + dice.choice(CALLS)
        name += dice.choice(["", "", "_async"]) if name in CALLS else ""
        named = {name: dice.choice(ANYTHING) for name in dice.sample(NAMES, 2)}
        try:
            made = getattr(comm, name, comm.empty)(dice.choice(ANYTHING), **named)
            if name.startswith("persistent_"):
                made()
            elif name.endswith("_async"):
                made.wait()
        except ends:
            pass
        if comm.closed:
            comm = collalgo.init()
    assert comm.allreduce(np.ones(1))[0] == 1


def test_no_argument_crashes_a_call():
    fuzz(1, 3000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_no_argument_crashes_a_call_of_many(seed):
    fuzz(seed, 30_000)
