"""Measured collectives correct the predicted times of a host, not its choices."""

import pytest

from collalgo import select
from collalgo.base import disk_cache
from collalgo.cost import corrections
from collalgo.cost.corrections import MOST, Corrections, Ratio, keep, known, summary
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES

PROFILE = HostProfile(1e-7, 2e-6, 1e-7, 1e-10, 2e-10, cores=2)

SIZES = (1, 64, 4096, 1 << 20, 1 << 26)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path))
    known.cache_clear()
    yield
    known.cache_clear()


def selected(collective, size, nbytes):
    return select(collective, nbytes, size=size, machine=PROFILE)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_all_candidates_of_a_call_have_the_same_correction(collective, size):
    before = [selected(collective, size, nbytes) for nbytes in SIZES]
    found = [{one.row: one.seconds for one in each.able} for each in before]
    keep(PROFILE, [Ratio(collective, 2, 8, 3.0), Ratio(collective, 8, 8, 0.5)])
    for nbytes, old, prices in zip(SIZES, before, found, strict=True):
        new = selected(collective, size, nbytes)
        assert new.algorithm == old.algorithm
        assert 0.499 < new.correction < 3.001 if size > 1 else new.correction == 1
        corrected = {one.row: one.seconds / new.correction for one in new.able}
        assert corrected == pytest.approx(prices)


def test_a_measured_cell_is_predicted_as_it_was_measured():
    ratios = [
        Ratio("allgather", ranks, nbytes, 1.0 + ranks / nbytes)
        for ranks in (2, 4, 8)
        for nbytes in (8, 4096, 1 << 20)
    ]
    found = Corrections(ratios)
    for one in ratios:
        factor = found.factor(one.collective, one.ranks, one.nbytes)
        assert factor == pytest.approx(one.ratio)


@pytest.mark.parametrize("ranks", [2, 3, 5, 7, 8, 12, 16, 17, 33])
@pytest.mark.parametrize("nbytes", [0, 1, 8, 100, 5000, 1 << 30])
def test_between_measurements_a_correction_lies_between_theirs(ranks, nbytes):
    ratios = [(2, 8, 2.0), (2, 4096, 0.5), (8, 8, 4.0), (8, 4096, 1.5)]
    found = Corrections(Ratio("scan", *one) for one in ratios)
    assert 0.499 < found.factor("scan", ranks, nbytes) < 4.001
    assert found.factor("reduce", ranks, nbytes) == 1.0
    assert found.factor("scan", 1, nbytes) == 1.0


def test_corrections_belong_to_the_profile_that_they_were_measured_with():
    keep(PROFILE, [Ratio("scan", 2, 8, 2.0)])
    assert known(PROFILE).factor("scan", 2, 8) == pytest.approx(2.0)
    assert known(PROFILE._replace(latency=2e-7)).factor("scan", 2, 8) == 1.0
    keep(PROFILE, [])
    assert known(PROFILE).ratios == ()


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "null", "7", "[1]", '["scan"]', '[["scan", 2, 8, 1.0]]', "[" * 9999),
        *(f'[["scan", 2, 8, {ratio}, 0]]' for ratio in (0, -1, "NaN", 2 * MOST, "[]")),
        *(f'[["scan", {ranks}, {size}, 1, 0]]' for ranks, size in [(0, 8), (2, -1)]),
        '[["scan", 1e999, 8, 1, 0]]',
    ],
)
def test_a_file_that_has_no_ratios_corrects_nothing(text):
    key = corrections._key(PROFILE)
    disk_cache.keep(corrections.KIND, key, text)
    assert known(PROFILE).ratios == ()
    assert selected("scan", 2, 8).correction == 1.0


def test_the_basis_of_a_price_says_whether_it_is_corrected():
    assert "corrected" not in selected("scan", 2, 8).basis
    keep(PROFILE, [Ratio("scan", 2, 8, 2.0)])
    assert "corrected by measured collectives" in selected("scan", 2, 8).basis


def test_the_summary_has_a_row_for_each_number_of_ranks():
    ratios = [Ratio("scan", 2, 8, 2.0, 0.1), Ratio("gather", 2, 8, 0.5, 0.3)]
    found = summary([*ratios, Ratio("scan", 4, 8, 1.0, 0.0)])
    assert found == {2: (0.5, 2.0, pytest.approx(0.2)), 4: (1.0, 1.0, 0.0)}
