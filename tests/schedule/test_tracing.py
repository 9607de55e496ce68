"""Functions that are no schedules: each is refused with the line of the user."""

from functools import partial
from math import inf

import pytest

from collalgo import ALGORITHMS, ScheduleError, Topology, send, simulate, verify
from collalgo.algorithms import k_nomial, ring
from collalgo.algorithms.neighbors import OnGraph
from collalgo.schedule import tracing

HERE = __file__.rstrip("c")


def endless(group):
    while True:
        yield ()


def number(group):
    return 3


def without_group():
    yield ()


class NoFunction:
    pass


def to_peer(peer):
    def algorithm(group):
        yield send(peer, group.whole)

    return algorithm


def of_chunk(position, method="chunk"):
    def algorithm(group):
        yield send(group.right, getattr(group, method)(position))

    return algorithm


@pytest.mark.parametrize(
    ("algorithm", "complaint"),
    [
        (number, r"number: rank 0 of 2: it returned 3; write it as .* yields steps"),
        (without_group, r"takes 0 positional arguments but 1 was given"),
        (of_chunk("a"), r"group.chunk\('a'\): pass a position, an integer"),
        (of_chunk(0.5), r"group.chunk\(0.5\): pass a position, an integer"),
        (of_chunk(None, "peer"), r"group.peer\(None\): pass a position, an integer"),
        *(
            (to_peer(peer), f"send to {peer}: .*the peer must be one of the 2 ranks")
            for peer in (1.0, 1.5, inf, "1", None, -1, 2, 1 << 70, -1 << 70)
        ),
    ],
)
def test_an_odd_function_is_refused_without_lines_of_the_library(algorithm, complaint):
    with pytest.raises(ScheduleError, match=complaint) as caught:
        verify(algorithm, size=2, collective="broadcast")
    assert "collalgo/" not in str(caught.value)


def test_errors_of_a_function_name_where_it_is_defined():
    for algorithm in (number, without_group):
        line = algorithm.__code__.co_firstlineno
        with pytest.raises(ScheduleError) as caught:
            tracing.trace(algorithm, 0, 2)
        assert str(caught.value).endswith(f"(at {HERE}:{line})")
    with pytest.raises(ScheduleError, match="NoFunction: rank 0 of 2 raises TypeError"):
        tracing.trace(NoFunction, 0, 2)


def test_a_schedule_without_an_end_is_refused(monkeypatch):
    monkeypatch.setattr(tracing, "MOST_STEPS", 100)
    with pytest.raises(
        ScheduleError, match=r"endless: .*yields 100 steps and does not"
    ):
        verify(endless, size=2, collective="broadcast")


def test_a_schedule_without_an_end_has_no_price():
    machine = Topology.load("fully_connected", hosts=2)
    with pytest.raises(ScheduleError, match="yields 1048576 steps and does not end"):
        simulate(endless, machine, 8, collective="broadcast")


def test_schedules_are_named_alike_in_errors_and_in_decisions():
    row = next(iter(ALGORITHMS))
    assert tracing.name_of(row.schedule) == row.name
    assert tracing.name_of(partial(k_nomial.reduce, radix=4)) == "reduce(radix=4)"
    assert tracing.name_of(ring.allreduce) == "allreduce"
    assert tracing.name_of(OnGraph("alltoall", ())).startswith("direct on graph ")
