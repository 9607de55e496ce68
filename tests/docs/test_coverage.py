"""The page of dtypes, ops and arrays: its cells are right, or a clear error."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from docs import coverage, coverage_cells
from docs.coverage_cells import Cell, Outcome, outcomes
from tests.support.paths import ROOT
from tests.support.torch_environment import NEEDS_JAX


def test_some_cells_are_as_the_page_has_them():
    assert not coverage.differing(150)


@NEEDS_JAX
def test_some_cells_of_torch_and_jax_are_as_the_page_has_them():
    words = [coverage.WITH_PACKAGES, "-m", "docs.coverage", "300"]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"seed \d+\n", done.stdout)


def test_a_seed_chooses_the_same_cells_again(monkeypatch, capsys):
    chosen = []
    monkeypatch.setattr(coverage, "outcomes", lambda cells: chosen.append(cells) or {})
    coverage.main(["50"])
    coverage.main(["50", capsys.readouterr().out.removeprefix("seed ")])
    assert chosen[0] == chosen[1]


def test_the_page_is_not_written_without_torch_and_jax(monkeypatch):
    monkeypatch.setattr(coverage, "kinds_here", lambda: ["array"])
    monkeypatch.setattr(coverage, "WITH_PACKAGES", Path("absent"))
    with pytest.raises(SystemExit, match="make torch first"):
        coverage.write()


def test_another_page_would_be_found(monkeypatch):
    monkeypatch.setattr(coverage, "written_words", lambda _: {})
    assert coverage.differing(150)


def test_a_wrong_result_would_be_found(monkeypatch):
    cell = Cell("allreduce", "sum", "f4", "array")
    monkeypatch.setitem(coverage_cells.EXPECTED, "sum", np.subtract)
    assert outcomes([cell])[cell].verdict == "wrong"


@pytest.mark.parametrize("begins", [True, False])
def test_a_call_that_is_refused_after_it_began_is_wrong(monkeypatch, begins):
    cell = Cell("allreduce", "sum", "U3", "array")
    checked = coverage_cells.call

    def late(comm, cell):
        if begins:
            comm.barrier()
        return checked(comm, cell)

    monkeypatch.setattr(coverage_cells, "call", late)
    assert outcomes([cell])[cell].verdict == ("wrong" if begins else "refused")


def test_the_reason_is_that_of_the_rank_that_refused(monkeypatch):
    def of_one(comm, _cell):
        return Outcome("refused", "no such op") if comm.rank else Outcome("right")

    monkeypatch.setattr(coverage_cells, "outcome", of_one)
    cell = Cell("allreduce", "sum", "f4", "array")
    assert outcomes([cell])[cell] == Outcome("wrong", "one rank refused: no such op")


@pytest.mark.slow
def test_no_call_is_wrong_and_the_page_has_them_all():
    every = len([*coverage.cells(coverage.EVERY, kinds=coverage.kinds_here())])
    assert not coverage.differing(every)
