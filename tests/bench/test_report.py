"""Tables and summaries say what was measured, in which units."""

import pytest
from collalgo.bench.compare import compare
from collalgo.bench.report import conditions_in_words, rivals, summary, tables

from collalgo.base.units import human
from tests.support.bench_results import made, shown


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, "same"), (1.03, "same"), (1.3, "slower"), (0.7, "faster")],
)
def test_a_comparison_judges_by_the_cycles(factor, verdict):
    (found,) = compare([made(1e-3)], [made(factor * 1e-3)])
    assert found.verdict == verdict
    assert found.low <= found.ratio <= found.high or factor == 1.0


def test_peers_have_ratios():
    rows = [made(1e-3), made(3e-3, contestant="mpi")]
    text = shown(*tables(rows))
    assert "3.00" in text
    assert "allreduce, 2 ranks, float32, sum, out of place" in text
    words = " ".join(summary(rows))
    ratios = "mpi / collalgo: 3.00 (3.00 to 3.00) over 1 cell, below 1 in 0; above 1"
    assert ratios in words
    assert "wrong elements: 0 OK" in words
    assert "wrong elements: 4 FAILED" in " ".join(summary([made(1, wrong=4)]))
    assert [human(n) for n in (8, 1024, 3 << 20, 1 << 31)] == [
        "8 B",
        "1 KiB",
        "3 MiB",
        "2 GiB",
    ]


def test_what_varies_is_a_column():
    rows = [made(1e-3), made(1e-3)._replace(dtype="int8")]
    text = shown(*tables(rows))
    assert "type" in text
    assert "int8" in text


@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("cores", [1, 2, 4])
@pytest.mark.parametrize("load", [0.0, 0.4, 7.5])
def test_crowded_and_busy_machines_are_named_above_the_tables(ranks, cores, load):
    found = conditions_in_words(
        {"cores": cores, "ranks": ranks, "ranks_here": ranks, "load": load}
    )
    text = "\n".join(found)
    assert (f"{ranks} ranks share {cores} core" in text) == (ranks > cores)
    assert ("the machine was busy before" in text) == (load > 0.5 * cores)


def test_every_time_and_bandwidth_of_a_table_has_its_unit():
    rows = [made(1e-3), made(3e-3, contestant="mpi")]
    for one in (*tables(rows), rivals(rows)):
        names = [str(column.header).split("\n") for column in one.columns]
        for name in names:
            if name[0] in ("time", "p95", "p99", "min", "max", "predicted", "floor"):
                assert name[1:] == ["us"]
            if name[0] in ("algbw", "busbw"):
                assert name[1:] == ["GB/s"]
            if name[0] in ("mpi", "best"):
                assert name[1:] == ["x"]
