"""The formulas of the literature against what is proved, and the page made of both."""

from fractions import Fraction

import pytest

from collalgo import ALGORITHMS, verify
from collalgo.algorithms.literature import FORMULAS
from docs.generate import MEASURES, compare, page, proofs_of
from tests.support.paths import ROOT


def ids(row):
    return f"{row.collective}-{row.name}"


def test_every_algorithm_of_the_table_has_a_row_of_formulas():
    assert set(FORMULAS) == {
        (row.collective, row.name) for row in ALGORITHMS if not row.unproved
    }


@pytest.mark.parametrize("row", ALGORITHMS, ids=ids)
def test_where_a_proof_differs_from_the_formula_the_text_says_why(row):
    proofs = proofs_of(row)
    differ = any(not compare(row, measure, proofs).agrees for measure in MEASURES)
    assert differ == bool(FORMULAS[row.collective, row.name].differs)


def test_the_page_is_what_the_code_makes():
    written = ROOT / "docs" / "algorithms.md"
    assert written.read_text() == page(), "run make docs"


@pytest.mark.parametrize(
    ("size", "circulant", "folded"),
    [
        (6, 1.67, 3.50),
        (12, 1.83, 3.75),
        (24, 1.92, 3.88),
        (48, 1.96, 3.94),
        (96, 1.98, 3.97),
    ],
)
def test_the_circulant_moves_half_of_what_a_fold_moves(size, circulant, folded):
    found = verify("circulant", size=size, collective="allreduce")
    assert found.volume == found.sent == Fraction(2 * (size - 1), size)
    assert found.steps == 2 * (size - 1).bit_length()
    assert round(float(found.volume), 2) == circulant
    fold = verify("halving_doubling", size=size, collective="allreduce")
    assert float(fold.volume) == pytest.approx(folded, abs=0.006)
