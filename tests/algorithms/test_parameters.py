"""Parameters: each has a range; what is in it makes a right schedule or is refused."""

from functools import partial

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings, strategies as st

from collalgo import (
    AlgorithmNotApplicable,
    Topology,
    algorithm,
    select,
    simulate,
    threads,
    verify,
)
from collalgo.algorithms import first_use, linear, ring
from collalgo.algorithms.catalogue import candidates, find
from collalgo.algorithms.first_use import prove_once
from collalgo.algorithms.parameters import COMMON, OWN
from collalgo.cli.main import main as cli
from collalgo.errors import RulesError
from collalgo.schedule import trace
from collalgo.schedule.collective import COLLECTIVES
from collalgo.schedule.prover import Prover
from collalgo.selection.rules import Rules
from tests.support.oracle import check, vectors
from tests.support.parameter_checks import (
    examine,
    rows_with_parameters,
)

SIZES = (1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 25)

#: Values in and out of the range of each parameter, whatever the number of ranks.
VALUES = {
    "segments": [1, 2, 3, 4, 9],
    "lanes": [1, 2, 3, 5, 8],
    "radix": [2, 3, 4, 5, 6, 9, 1000],
    "blocks": [1, 2, 3, 9],
    "axes": [1, 2, 3, 4],
    "chains": [1, 2, 3, 100],
    "rings": [1, 2, 9],
    "leaders": [1, 2, 3, 50],
    "late": [None, 0, 1, 4, 30],
    "batch": [None, 1, 2, 50],
    "aggregation": [None, 1, 2, 50],
    "dims": [(), (2, 2), (1, 3), (3, 1, 1), (2, 2, 2), (2, 4), (3, 3), (5, 5), (16,)],
    "hosts": [(), (1, 2), (2, 2, 1), (5, 2), (4, 4), (1, 7), (8, 8), (9, 8), (5,) * 5],
    "cycles": [(), ((0, 1),), ((0, 1, 2), (2, 1, 0)), ((0, 2, 1, 3),) * 5],
    "trees": [(), ((-1, 0, 1), (1, 2, -1)), ((-1, 0, 0, 1, 1),) * 9],
    "weights": [(), (1, 2), (3, 1)],
    "large": [(), ((0, 1), (1, 2))],
}

#: Values that no parameter has, or only those that may be left out or empty.
WRONG = [0, -1, 10**11, 2.5, "4", None, True, (0, -3), [[]], {}, b"1", float("nan")]

#: Names that ranks refuse alike, with a part of the reason.
REFUSED = [
    ("broadcast", "linear(segments=3, lanes=5)", "10 lanes would be needed"),
    ("broadcast", "k_nomial(segments=8, lanes=5)", "10 lanes would be needed"),
    ("broadcast", "binomial(radix=1)", "from 2 to 1048576, not 1"),
    ("reduce", "k_nomial(radix=0)", "from 2 to 1048576, not 0"),
    ("allgather", "bruck(radix=1)", "from 2 to"),
    ("alltoall", "k_bruck(radix=-1)", "from 2 to"),
    ("barrier", "dissemination(radix=1)", "from 2 to"),
    ("barrier", "k_dissemination(radix=1)", "from 2 to"),
    ("barrier", "tree(radix=1)", "from 2 to"),
    ("allreduce", "reduce_broadcast(radix=1)", "from 2 to"),
    ("reduce_scatter", "reduce_then_scatter(radix=1)", "from 2 to"),
    ("broadcast", "circulant(blocks=0)", "from 1 to 4096, not 0"),
    ("allreduce", "torus_2d(axes=0)", "from 1 to 16, not 0"),
    ("allreduce", "ring(segments=99999999999)", "from 1 to 4096, not 99999999999"),
    ("allreduce", "circulant_pipeline(blocks=4096, segments=4096)", "pieces of the"),
    ("allreduce", "torus_3d_all_ways(segments=2)", "12 lanes would be needed"),
    ("allreduce", "forest(trees=((-1,) + (0,) * 7,))", "write name"),
    ("allreduce", "forest(weights=(1,))", "1 weights for 2 trees"),
    ("allreduce", "late_rank(late=8)", "not below the number of ranks, 8"),
    ("allreduce", "ring(order=(0, 0, 1))", "must name each of the 8 ranks once"),
    ("scan", "linear(order=(0, 1))", "pass no order"),
    ("alltoall", "bruck(takes_part=1)", "has no parameter 'takes_part'"),
]


def root_of(row, root):
    return root if COLLECTIVES[row.collective].rooted else 0


@st.composite
def asked(draw, sizes=SIZES):
    """A row, a number of ranks, some of its parameters, and a root."""
    row = draw(st.sampled_from(rows_with_parameters()))
    size = draw(st.sampled_from(sizes))
    names = draw(st.sets(st.sampled_from(row.known), max_size=3))
    orders = st.permutations(range(size)).map(tuple)
    parameters = {
        name: draw(orders if name == "order" else st.sampled_from(VALUES[name]))
        for name in sorted(names)
    }
    return row, size, parameters, root_of(row, draw(st.integers(0, size - 1)))


RELAXED = {"suppress_health_check": list(HealthCheck)}


@settings(max_examples=60, derandomize=True, **RELAXED)
@given(asked())
def test_parameters_are_proved_and_lowered_or_refused(case):
    examine(*case)


@pytest.mark.slow
@settings(max_examples=5000, **RELAXED)
@given(asked())
def test_very_many_parameters_are_proved_and_lowered_or_refused(case):
    examine(*case)


@settings(max_examples=12, derandomize=True, **RELAXED)
@given(st.lists(asked([3]), min_size=8, max_size=8))
def test_parameters_that_are_not_refused_run_right(cases):
    found = [(examine(*case), case[-1]) for case in cases]

    def on_each_rank(comm):
        for row, root in found:
            for count in range(4) if row else ():
                inputs = vectors(comm.size, count, np.float32, seed=count)
                check(comm, row, inputs, root=root)

    threads(on_each_rank, 3, timeout=60)


@pytest.mark.parametrize("size", [1, 3])
def test_values_out_of_range_are_refused_at_once(size):
    for row in rows_with_parameters():
        for name in row.known:
            for value in WRONG:
                examine(row, size, {name: value}, 0)


def test_every_parameter_of_the_library_has_a_range():
    for row in rows_with_parameters():
        assert set(row.known) == {name for name, _ in row.ranges}, row.name
        assert row.checked(dict(row.parameters)) == dict(row.parameters)
    assert set(VALUES) | {"order"} == {*COMMON, *OWN}


@pytest.mark.parametrize(("collective", "name", "reason"), REFUSED)
def test_it_is_refused_by_every_entry_point(collective, name, reason):
    refused = partial(pytest.raises, AlgorithmNotApplicable, match=reason)
    with refused():
        find(collective, name, 8)
    with refused():
        verify(name, collective=collective, size=8)
    with refused():
        select(collective, 1024, size=8, algorithm=name)
    with refused():
        simulate(name, Topology.load("dgx1v"), 1024, collective=collective)
    command = ["verify", name, "-c", collective, "-n", "8"]
    found = CliRunner().invoke(cli, command)
    assert found.exit_code == 1
    assert "Traceback" not in found.output


def test_it_is_refused_in_a_file_of_rules():
    name = "ring(segments=99999999999)"
    text = f"collalgo: rules/1\nrules:\n  allreduce: [{{sizes: {{0: '{name}'}}}}]\n"
    with pytest.raises(RulesError, match="from 1 to 4096"):
        Rules.of_text(text, "mine.yaml")


def test_all_ranks_refuse_alike_and_stay_in_step():
    def on_each_rank(comm):
        for collective, name, reason in REFUSED:
            if collective == "broadcast":
                with pytest.raises(AlgorithmNotApplicable, match=reason):
                    comm.broadcast(np.ones(5), algorithm=name)
        return comm.allreduce(np.ones(1)).tolist()

    assert threads(on_each_rank, 3) == [[3.0]] * 3


@pytest.mark.parametrize("size", [9, 18, 27])
def test_an_order_in_which_bits_would_differ_is_refused_for_any_number(size):
    rng = np.random.default_rng(size)
    row = next(r for r in candidates("allreduce") if r.name == "recursive_multiplying")
    for _ in range(20):
        order = tuple(map(int, rng.permutation(size)))
        ordered = row.with_parameters({"order": order})
        steps = [trace(ordered._steps, rank, size) for rank in range(size)]
        proof = Prover(COLLECTIVES["allreduce"], steps, 0).prove()
        assert proof.consistent == (ordered.obstacle(size) is None)


def test_numbers_of_any_kind_make_one_name():
    row = find("allreduce", "ring(segments=4)", 8)
    plain = next(r for r in candidates("allreduce") if r.name == "ring")
    assert plain.with_parameters({"segments": np.int64(4)}) is row


def test_parameters_of_users_may_be_anything():
    @algorithm("broadcast", "of_a_user")
    def of_a_user(group, flag=1, table=()):
        assert type(flag) in (int, bool)
        yield from linear.broadcast(group)

    for name in ("of_a_user(flag=True)", "of_a_user(flag=1)"):
        assert find("broadcast", name, 3).name == name
    row = find("broadcast", "of_a_user(table={'a': [1]})", 3)
    assert dict(row.parameters) == {"table": {"a": [1]}}
    verify(row.schedule, size=3, collective="broadcast", segments=2)


def test_what_would_take_minutes_to_prove_is_refused():
    row = find("allreduce", "ring(segments=1024)", 48)
    with pytest.raises(AlgorithmNotApplicable, match="at most 4194304 are proved"):
        prove_once(row.schedule, 48, "allreduce")


def test_a_schedule_that_is_too_long_to_prove_is_refused_with_its_collective(
    monkeypatch,
):
    monkeypatch.setattr(first_use, "PROVED_TRANSFERS", 10)
    with pytest.raises(AlgorithmNotApplicable, match="transfers, but at most") as found:
        prove_once(lambda group: ring.allreduce(group), 5, "allreduce")
    assert found.value.collective == "allreduce"


def test_parameters_are_added_to_those_that_a_name_shows():
    """So that the name finds the same row."""
    row = find("allreduce", "k_ary_halving_doubling(radix=4)", 4)
    order = (2, 0, 1, 3)
    more = row.with_parameters({"order": order})
    assert more.name == f"k_ary_halving_doubling(radix=4, order={order})"
    assert find("allreduce", more.name, 4) == more
    other = more.with_parameters({"radix": 2})
    assert other.name == f"k_ary_halving_doubling(radix=2, order={order})"
    assert dict(other.parameters) == {**dict(more.parameters), "radix": 2}
