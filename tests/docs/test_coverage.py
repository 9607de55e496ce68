"""The page of dtypes, ops and arrays: its cells are right, or a clear error."""

import numpy as np
import pytest

from docs import coverage
from docs.coverage import Cell, Outcome, cells, outcomes

EVERY = [*cells([d for row in coverage.DTYPES.values() for d in row])]


def rows_of(page):
    """The words of each table by the names of its row and its column."""
    found, head = {}, None
    for line in page.splitlines():
        words = [word.strip() for word in line.strip("|").split("|")]
        if not line.startswith("| "):
            head = None
        elif head is None:
            head = words
        elif words[1] != "---":
            pairs = zip(head, words, strict=True)
            found.update({(words[0], name): word for name, word in pairs})
    return found


def test_some_cells_are_as_the_page_has_them():
    rng, written = np.random.default_rng(), rows_of(coverage.PAGE.read_text())
    chosen = [EVERY[number] for number in rng.choice(len(EVERY), 100, replace=False)]
    names = {d: row for row, dtypes in coverage.DTYPES.items() for d in dtypes}
    for cell, found in outcomes(chosen).items():
        word = written[names[cell.dtype], cell.op or cell.collective]
        is_scan = cell.collective in ("scan", "exscan")
        is_right = word == "yes" or (word == "not scan" and not is_scan)
        assert found.verdict == ("right" if is_right else "refused"), (cell, found)


def test_a_wrong_result_would_be_found(monkeypatch):
    cell = Cell("allreduce", "sum", "f4", "array")
    monkeypatch.setitem(coverage.EXPECTED, "sum", np.subtract)
    assert outcomes([cell])[cell].verdict == "wrong"


@pytest.mark.parametrize("begins", [True, False])
def test_a_call_that_is_refused_after_it_began_is_wrong(monkeypatch, begins):
    cell = Cell("allreduce", "sum", "U3", "array")
    checked = coverage.call

    def late(comm, cell):
        if begins:
            comm.barrier()
        return checked(comm, cell)

    monkeypatch.setattr(coverage, "call", late)
    assert outcomes([cell])[cell].verdict == ("wrong" if begins else "refused")


def test_the_reason_is_that_of_the_rank_that_refused(monkeypatch):
    def of_one(comm, _cell):
        return Outcome("refused", "no such op") if comm.rank else Outcome("right")

    monkeypatch.setattr(coverage, "outcome", of_one)
    cell = Cell("allreduce", "sum", "f4", "array")
    assert outcomes([cell])[cell] == Outcome("wrong", "one rank refused: no such op")


@pytest.mark.slow
def test_the_page_is_that_of_all_calls():
    assert coverage.PAGE.read_text() == coverage.page()
