"""The race of plain, reproducible and invariant sums."""

import json
from functools import partial

import pytest
from click.testing import CliRunner
from collalgo.bench import timing
from collalgo.bench.cli import main
from collalgo.bench.invariance import MODES, invariance

from collalgo import threads


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(timing, "BUDGET", 0.001)


def test_every_rank_knows_the_times_of_each_mode():
    race = partial(invariance, dtypes=["float32", "bfloat16"], sizes=[8, 64], powers=9)
    found = threads(race, 2)
    assert found[0] == found[1]
    assert [row[:2] for row in found[0]] == [
        (dtype, nbytes) for dtype in ("float32", "bfloat16") for nbytes in (8, 64)
    ]
    assert all(len(row.seconds) == len(MODES) for row in found[0])
    assert all(row.ratios[0] == 1 and min(row.ratios) > 0 for row in found[0])


def test_the_command_shows_and_writes_all_rows(tmp_path):
    file = tmp_path / "found.json"
    words = ["invariance", "-R", "1", "-s", "8,64", "--json", str(file)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "allreduce of 1 rank," in done.output
    assert "invariant" in done.output
    assert [row["nbytes"] for row in json.loads(file.read_text())["rows"]] == [8, 64]


def test_a_dtype_without_exact_sums_is_refused():
    done = CliRunner().invoke(main, ["invariance", "-d", "int32"])
    assert done.exit_code == 1
    assert "int32 has no invariant sums; choose of float16" in done.output
