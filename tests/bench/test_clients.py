"""The tables of programs of others, of what the programs print."""

import sys

import click
import pytest
from collalgo.bench.clients import (
    alternated,
    rows_of_calls,
    rows_of_lengths,
    summary,
)
from collalgo.bench.vllm import results

#: A program that prints other times in each run: the number of its runs.
PROGRAM = """
import pathlib, sys
runs = pathlib.Path(sys.argv[1])
runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
number = len(runs.read_text())
print(f"allreduce 64 {number}.5\\nreduce_scatter  1048576  {10 * number}")
print("[0] barrier 0 0.25")
"""


def programs(tmp_path, *names):
    return [(sys.executable, "-c", PROGRAM, tmp_path / name) for name in names]


def test_each_row_has_the_runs_of_all_programs(tmp_path):
    found = alternated(programs(tmp_path, "same", "same", "other"), 3)
    assert [each["allreduce", 64] for each in found] == [
        [1.5, 3.5, 5.5],
        [2.5, 4.5, 6.5],
        [1.5, 2.5, 3.5],
    ]
    least = [summary(each, min) for each in found]
    assert [*rows_of_calls(least)] == [
        "| allreduce, 64 B | 1.5 | 2.5 | 1.5 |",
        "| reduce-scatter, 1 MiB | 10 | 20 | 10 |",
        "| barrier | 0.25 | 0.25 | 0.25 |",
    ]


def test_a_row_of_lengths_pairs_the_times_of_two_programs():
    ours = {("Bcast", 4096): 7.25, ("Bcast", 8): 6.04, ("bcast", 8): 18.4}
    others = {("Bcast", 8): 0.512, ("Bcast", 4096): 120.0, ("bcast", 8): 1.0}
    ours["bcast", 4096] = others["bcast", 4096] = 3.0
    assert [*rows_of_lengths(ours, others)] == [
        "| `Bcast` | 6.0 (0.51) | 7.2 (120) |",
        "| `bcast` | 18 (1.0) | 3.0 (3.0) |",
    ]


@pytest.mark.parametrize("ranks", [("",), ("[0] ", "[1] "), ("[1] ", "[10] ", "[0] ")])
def test_the_results_of_an_engine_are_those_of_rank_0(ranks):
    lines = "\n".join(f"{rank}result gloo 4 abc 9 2.5" for rank in ranks)
    words = [sys.executable, "-c", f"print({lines!r})"]
    assert [*results("gloo", words, [])] == [(4, "abc", 2.5)]


@pytest.mark.parametrize(
    "line", ["print('no', 'times')", "raise SystemExit('it ' + 'failed')"]
)
def test_a_program_without_times_is_an_error_with_its_words(line):
    words = "no times|it failed"
    with pytest.raises(click.ClickException, match=words):
        alternated([(sys.executable, "-c", line)], 1)
