"""Algorithms of users: put into the table, found by name, proved before they run."""

import numpy as np
import pytest
from click.testing import CliRunner

import collalgo
from collalgo import ALGORITHMS, AlgorithmNotApplicable, ScheduleError, threads, verify
from collalgo.algorithms import k_nomial, ring
from collalgo.algorithms.catalogue import find
from collalgo.algorithms.table import parse
from collalgo.cli.main import main


def test_a_registered_algorithm_is_run_chosen_and_proved_by_its_name():
    @collalgo.algorithm("allreduce", "mine")
    def mine(group):
        yield from k_nomial.reduce(group)
        yield from k_nomial.broadcast(group)

    assert verify("mine", size=5).collective == "allreduce"
    prices = collalgo.select("allreduce", 100, size=4).candidates
    assert any(c.algorithm == "mine" and c.obstacle is None for c in prices)

    def on_each_rank(comm):
        return comm.allreduce(np.full(9, comm.rank), algorithm="mine").tolist()

    assert threads(on_each_rank, 4) == [[6] * 9] * 4


def test_its_own_parameters_come_from_the_row_the_name_or_its_defaults():
    seen = []

    @collalgo.algorithm("broadcast", "mine", radix=3)
    def mine(group, radix=2):
        seen.append(radix)
        yield from k_nomial.broadcast(group, radix)

    verify("mine", size=2)
    verify("mine(radix=5)", size=2)
    assert seen == [3, 3, 5, 5]


def test_a_wrong_one_is_neither_chosen_nor_run():
    @collalgo.algorithm("allreduce", "mine")
    def mine(group):
        yield from ring.reduce_scatter(group)

    chosen = collalgo.select("allreduce", 8, size=3)
    (found,) = (c for c in chosen.candidates if c.algorithm == "mine")
    assert "is wrong: allreduce of 3 ranks: rank 0 ends" in found.obstacle
    lines = chosen.explain().splitlines()
    assert lines[2].startswith("your mine: is wrong: ")
    assert "mine" not in "".join(lines[3:])
    words = ["select", "allreduce", "-n", "3", "--size", "8,16"]
    assert "\nyour mine: is wrong: " in CliRunner().invoke(main, words).output

    def on_each_rank(comm):
        with pytest.raises(ScheduleError, match="instead of"):
            comm.allreduce(np.ones(3), algorithm="mine")
        return comm.allreduce(np.ones(3)).tolist()

    assert threads(on_each_rank, 3) == [[3.0] * 3] * 3


def test_a_name_shows_only_the_parameters_that_were_given():
    @collalgo.algorithm("broadcast", "mine", a=4)
    def mine(group, a=1, data=1):
        yield from k_nomial.broadcast(group)

    row = find("broadcast", "mine(data=4)", 2)
    more = row.with_parameters({"segments": 2})
    assert more.name == "mine(data=4, segments=2)"
    assert find("broadcast", more.name, 2) == more


def test_a_name_is_taken_once_but_a_file_may_be_loaded_again():
    def register():
        @collalgo.algorithm("barrier", "mine")
        def mine(group):
            yield from ring.barrier(group)

    register()
    register()
    assert [row.name for row in ALGORITHMS].count("mine") == 1
    with pytest.raises(ValueError, match="has an algorithm 'ring' already"):
        collalgo.algorithm("allreduce", "ring")(ring.allreduce)
    with pytest.raises(ValueError, match="unknown collective 'all_reduce'"):
        collalgo.algorithm("all_reduce", "mine")
    with pytest.raises(ValueError, match="is not a name"):
        collalgo.algorithm("allreduce", "my algorithm")


def test_its_obstacle_is_heeded():
    def odd(size):
        return f"it needs an even number but there are {size}" if size % 2 else None

    @collalgo.algorithm("allreduce", "mine", obstacle=odd)
    def mine(group):
        yield from ring.allreduce(group)

    with pytest.raises(AlgorithmNotApplicable, match="mine needs an even number"):
        verify("mine", size=3)
    assert verify("mine", size=4).steps == 6


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("ring", ("ring", {})),
        ("ring()", ("ring", {})),
        ("ring(segments=4, lanes=2)", ("ring", {"segments": 4, "lanes": 2})),
        ("forest(trees=[[-1, 0], [1, -1]])", ("forest", {"trees": ((-1, 0), (1, -1))})),
    ],
)
def test_a_name_may_give_parameters(text, parts):
    assert parse(text) == parts


@pytest.mark.parametrize(
    "text",
    ["ring(", "ring(4)", "ring(x=f())", "ring(**{})x", "ring(x=1)(y=2)", "a(b=c)"],
)
def test_a_name_that_cannot_be_read_says_how_to_write_it(text):
    with pytest.raises(AlgorithmNotApplicable, match="write name"):
        parse(text)


def test_parameters_reach_the_ranks_and_are_compared():
    def on_each_rank(comm):
        name = "ring(segments=3)" if comm.rank else "ring(segments=2)"
        with pytest.raises(collalgo.MismatchError, match=r"ring\(segments="):
            comm.allreduce(np.ones(100), algorithm=name)

    threads(on_each_rank, 2)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (
            "ring(radix=2)",
            "ring has no parameter 'radix'; it has segments, lanes, order",
        ),
        ("ring(order=[0, 0, 1])", "must name each of the 3 ranks once"),
        ("torus_2d(dims=(2, 2))", "a grid of 2 x 2 has 4 places but there are 3"),
        ("mesh_2d(dims=(2, 2))", "a grid of 2 x 2 has 4 places but there are 3"),
        ("ring_2d(dims=(2, 1))", "a grid of 2 x 1 has 2 places but there are 3"),
        ("blueconnect(dims=(-1, -3))", "needs dims to be"),
        ("hierarchical(hosts=(2, 2))", "make 4 ranks but there are 3"),
        ("forest(trees=((-1, 0, 5),))", "must be ranks below 3"),
        ("forest(trees=((-1, 2, 1),))", "some ranks have no path"),
    ],
)
def test_parameters_that_do_not_fit_say_so(name, reason):
    def on_each_rank(comm):
        with pytest.raises((AlgorithmNotApplicable, ScheduleError), match=reason):
            comm.allreduce(np.ones(3), algorithm=name)
        return comm.allreduce(np.ones(1)).tolist()

    assert threads(on_each_rank, 3) == [[3.0]] * 3


def test_an_order_that_breaks_equal_bits_is_refused_in_an_allreduce():
    """Sums of three in the order of the ranks may nest in another order elsewhere."""

    def on_each_rank(comm):
        name = f"recursive_multiplying(order={[0, 8, 7, 6, 5, 4, 3, 2, 1]})"
        with pytest.raises(AlgorithmNotApplicable, match="the ranks different bits"):
            comm.allreduce(np.ones(3), algorithm=name)

    threads(on_each_rank, 9)


def test_the_name_of_an_algorithm_of_another_collective_is_told_so():
    with pytest.raises(
        AlgorithmNotApplicable,
        match="'binomial'; it is an algorithm of reduce, broadcast, gather, scatter; ",
    ):
        find("allreduce", "binomial", 8)


def test_a_name_that_is_misspelt_is_told_what_it_may_mean():
    with pytest.raises(AlgorithmNotApplicable, match=r"'rnig'; did you mean 'ring'\?"):
        find("allreduce", "rnig", 4)
    with pytest.raises(
        AlgorithmNotApplicable,
        match=r"'xyzzy'; import the file that .* or choose one of one_shot",
    ):
        find("allreduce", "xyzzy", 4)
