"""Measured collectives correct the predicted times of a host, not its choices."""

import pytest

from collalgo import select
from collalgo.base import disk_cache
from collalgo.cost import corrections
from collalgo.cost.corrections import MOST, Corrections, Ratio, keep, known, summary
from collalgo.cost.host_profile import HostProfile
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.on_host import HostPricer

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
        *("", "{", "null", "7", "[1]", '["scan"]', "[" * 9999),
        *(f'[["scan", 2, 8{more}]]' for more in (", 1", ", 1, 0", ", 1, 0, 0, 0")),
        *(f'[["scan", 2, 8, {x}, 0, 0]]' for x in (0, -1, "NaN", 2 * MOST, "[]")),
        *(f'[["scan", {ranks}, {size}, 1, 0, 0]]' for ranks, size in [(0, 8), (2, -1)]),
        *(f'[["scan", 2, 8, 1, 0, {apart}]]' for apart in (-1, "NaN", 1, "[]")),
        '[["scan", 1e999, 8, 1, 0, 0]]',
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


def test_the_summary_has_a_row_for_each_number_of_ranks_and_distance():
    ratios = [
        Ratio("scan", 2, 8, 2.0, 0.1, 1e-7),
        Ratio("gather", 2, 8, 0.5, 0.3, 1e-7),
    ]
    others = [Ratio("scan", 4, 8, 1.0, 0.0, 1e-7), Ratio("scan", 2, 8, 3.0, 0.0, 4e-7)]
    assert summary([*ratios, *others]) == [
        (2, 1e-7, 0.5, 2.0, pytest.approx(0.2)),
        (2, 4e-7, 3.0, 3.0, 0.0),
        (4, 1e-7, 1.0, 1.0, 0.0),
    ]


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("apart", [0.0, 5e-8, 1e-7, 2e-7, 4e-7, 1e-6])
def test_between_two_distances_a_correction_lies_between_theirs(ranks, apart):
    ratios = [Ratio("scan", 2, 8, *one) for one in ((2.0, 0, 1e-7), (0.5, 0, 4e-7))]
    factor = Corrections(ratios).factor("scan", ranks, 64, apart)
    if 1e-7 < apart < 4e-7:
        assert 0.5 < factor < 2.0
    else:
        assert factor == pytest.approx(2.0 if apart < 4e-7 else 0.5)


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_price_takes_the_correction_of_the_distance_at_the_moment(monkeypatch, size):
    price = selected("scan", size, 64).seconds
    keep(
        PROFILE,
        [Ratio("scan", 2, 8, 2.0, 0.0, 1e-7), Ratio("scan", 2, 8, 4.0, 0.0, 4e-7)],
    )
    for apart, ratio in ((9e-8, 2.0), (4e-7, 4.0), (2e-7, 2.0 * 2**0.5)):
        monkeypatch.setattr(
            "collalgo.selection.on_host.distance", lambda now=apart: now
        )
        found = selected("scan", size, 64)
        assert found.seconds == pytest.approx(price * ratio)
        assert f"a handoff of {apart * 1e6:.2f} us, as now" in found.basis


def test_the_distance_is_not_measured_where_it_makes_no_difference(monkeypatch):
    monkeypatch.setattr("collalgo.selection.on_host.distance", lambda: 1 / 0)
    assert selected("scan", 2, 8).seconds > 0
    keep(PROFILE, [Ratio("scan", 2, 8, 2.0, 0.0, 1e-7)])
    assert selected("scan", 2, 8).correction == pytest.approx(2.0)
    near = [(2, 1e-7), (4, 1.04e-7), (8, 0.97e-7)]
    keep(PROFILE, [Ratio("scan", size, 8, 2.0, 0.0, apart) for size, apart in near])
    for size, _ in near:
        assert selected("scan", size, 8).correction == pytest.approx(2.0)


def test_the_distance_is_not_measured_for_choices(monkeypatch):
    monkeypatch.setattr("collalgo.selection.on_host.distance", lambda: 1 / 0)
    keep(PROFILE, [Ratio("scan", 2, 8, 2.0, 0.0, apart) for apart in (1e-7, 4e-7)])
    with pytest.raises(ZeroDivisionError):
        selected("scan", 2, 8)
    assert HostPricer(2, PROFILE).choices("scan").at(8).row.collective == "scan"
