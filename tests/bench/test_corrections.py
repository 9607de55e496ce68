"""Collectives are measured to correct the prices of the host."""

from collections import Counter

import pytest
from click.testing import CliRunner
from collalgo.bench import corrections as measuring
from collalgo.bench.cells import Cell
from collalgo.bench.corrections import (
    Sample,
    carried_over,
    cells,
    measure_ratios,
    numbers_of_ranks,
)

from collalgo import select, threads
from collalgo.cli.main import main
from collalgo.cost.corrections import MOST, Ratio, keep, known
from collalgo.cost.host_profile import host_profile
from collalgo.schedule.collective import COLLECTIVES

pytestmark = pytest.mark.deadline

#: A few short cells, one of them with blocks.
SOME = (
    Cell("allreduce", 64, op="sum"),
    Cell("allgather", 4096),
    Cell("barrier", 0, place="in"),
)


@pytest.fixture
def own_corrections(monkeypatch):
    """Corrections of this test only, and the profile of this machine."""
    profile, kept = host_profile(), {}
    monkeypatch.setattr("collalgo.cost.corrections.disk_cache.keep", _into(kept))
    monkeypatch.setattr(
        "collalgo.cost.corrections.disk_cache.recall",
        lambda kind, key, *_: kept.get((kind, key)),
    )
    known.cache_clear()
    yield profile
    known.cache_clear()


@pytest.fixture
def distances(monkeypatch):
    """The distances of the cores that are measured, which a test extends."""
    found = [1e-7]
    monkeypatch.setattr(measuring, "spawn", threads)
    for name in ("bench.corrections.distance_now", "selection.on_host.distance"):
        monkeypatch.setattr(f"collalgo.{name}", lambda: found[-1])
    return found


def _into(kept):
    def keep_there(kind, key, content, *_):
        kept[kind, key] = content

    return keep_there


@pytest.mark.parametrize("ranks", [2, 3, 8, 17, 96, 192, 256])
def test_all_collectives_are_measured_each_with_the_op_it_needs(ranks):
    found = [*cells(ranks)]
    assert {cell.collective for cell in found} == set(COLLECTIVES)
    assert len(set(found)) == len(found)
    for cell in found:
        assert (cell.op == "sum") == COLLECTIVES[cell.collective].reduces
        assert cell.nbytes * ranks <= 2 << 30
    largest = max(cell.nbytes for cell in found)
    assert largest == 16 << 20 or 4 * largest * ranks > 2 << 30


@pytest.mark.parametrize("cores", [1, 2, 3, 8, 64, 96, 192, 1025, 5000])
def test_ranks_are_measured_with_a_core_each_and_crowded(cores):
    found = numbers_of_ranks(cores)
    assert found[0] == 2
    assert found[-1] == min(max(4 * cores, 2), 256)
    assert len(set(found)) == len(found)


@pytest.mark.usefixtures("distances")
@pytest.mark.parametrize("size", [2, 3])
def test_a_measured_cell_is_predicted_by_its_ratio(own_corrections, monkeypatch, size):
    monkeypatch.setattr(measuring, "TURNS", 2)
    monkeypatch.setattr(measuring, "FURTHER", 0)
    parts = []
    (found,) = measure_ratios(own_corrections, parts.append, SOME, [size])
    assert parts == [0.0, 0.5]
    assert {one.collective for one in found} == {cell.collective for cell in SOME}
    assert all(1 / MOST <= one.ratio <= MOST and one.spread >= 0 for one in found)
    before = [select(one.collective, one.nbytes, size=size) for one in found]
    keep(own_corrections, found)
    for one, old in zip(found, before, strict=True):
        new = select(one.collective, one.nbytes, size=size)
        assert new.seconds == pytest.approx(old.seconds * one.ratio)


def test_only_unstable_cells_are_measured_again(own_corrections, monkeypatch):
    stable, unstable = SOME[:2]
    asked, clock = [], iter(range(1, 100))

    def measured(samples, size, some):
        asked.append([*some])
        for cell in some:
            seconds = 1e-6 if cell == stable else next(clock) * 1e-6
            samples[cell].append(Sample(seconds, 1e-7))

    monkeypatch.setattr(measuring, "_add", measured)
    (found,) = measure_ratios(own_corrections, chosen=(stable, unstable), ranks=[2])
    assert asked[: measuring.TURNS] == [[stable, unstable]] * measuring.TURNS
    assert asked[measuring.TURNS :] == [[unstable]] * measuring.FURTHER
    spreads = {one.collective: one.spread for one in found}
    assert spreads[stable.collective] == 0 < spreads[unstable.collective]


def test_each_distance_that_stays_for_a_cell_has_ratios_of_its_own(
    own_corrections, distances, monkeypatch
):
    near, far = 1e-7, 4e-7
    monkeypatch.setattr(measuring, "TURNS", 3)
    monkeypatch.setattr(measuring, "FURTHER", 0)

    def measured(comm, cell):
        seconds = 1e-6 if distances[-1] == near else 3e-6
        if comm.rank == 0 and cell == SOME[1]:
            distances.append(far)  # within this cell, once
        return seconds

    monkeypatch.setattr(measuring, "seconds_of", measured)
    (found,) = measure_ratios(own_corrections, chosen=SOME, ranks=[2])
    of_cell = Counter((one.collective, one.distance) for one in found)
    assert set(of_cell.values()) == {1}
    assert {apart for name, apart in of_cell if name == "allreduce"} == {near, far}
    assert {apart for name, apart in of_cell if name == "allgather"} == {far}
    keep(own_corrections, found)
    for apart, seconds in ((near, 1e-6), (far, 3e-6)):
        distances.append(apart)
        assert select("allreduce", 64, size=2).seconds == pytest.approx(seconds)


def test_calibrate_keeps_what_another_profile_was_measured_at_other_distances(
    own_corrections,
):
    earlier = own_corrections._replace(latency=2 * own_corrections.latency)
    near, far, crowded = (
        Ratio("scan", ranks, 64, 2.0, 0.0, apart)
        for ranks, apart in ((2, 1e-7), (2, 4e-7), (8, 1e-7))
    )
    seconds = 2.0 * select("scan", 64, size=2, machine=earlier).seconds
    keep(earlier, [near, far, crowded])
    found = [near._replace(distance=1.1e-7)]
    kept = carried_over(earlier, own_corrections, found)
    assert [(one.ranks, one.distance) for one in kept] == [(2, 4e-7), (8, 1e-7)]
    price = select("scan", 64, size=2, machine=own_corrections).seconds
    assert price * kept[0].ratio == pytest.approx(seconds)
    assert carried_over(own_corrections, own_corrections, []) == []
    everywhere = near._replace(distance=0.0)
    assert carried_over(earlier, own_corrections, [everywhere])[0].ranks == 8


def test_ranks_that_share_cores_have_one_ratio_whatever_the_distance(
    own_corrections, distances, monkeypatch
):
    monkeypatch.setattr(measuring, "cores", lambda: 2)
    monkeypatch.setattr(measuring, "TURNS", 3)
    monkeypatch.setattr(measuring, "FURTHER", 0)

    def measured(comm, cell):
        if comm.rank == 0:
            distances.append(5e-7 - distances[-1])
        return 2e-6

    monkeypatch.setattr(measuring, "seconds_of", measured)
    (found,) = measure_ratios(own_corrections, chosen=SOME, ranks=[3])
    assert [one.distance for one in found] == [0.0] * len(SOME)
    keep(own_corrections, [*found, Ratio("allreduce", 2, 64, 5.0, 0.0, 1e-7)])
    assert known(own_corrections).distances == (1e-7,)
    for apart in (1e-7, 4e-7):
        distances.append(apart)
        assert select("allreduce", 64, size=3).seconds == pytest.approx(2e-6)


@pytest.fixture
def short_calibrate(own_corrections, monkeypatch):
    """Calibrate measures a few cells on 2 ranks, for a profile that is known."""
    monkeypatch.setattr(measuring, "cells", lambda _: iter(SOME))
    monkeypatch.setattr(measuring, "numbers_of_ranks", lambda _: [2])
    for name in ("calibrate", "kept_profile"):
        monkeypatch.setattr(f"collalgo.bench.calibrate.{name}", lambda: own_corrections)
    return own_corrections


def test_calibrate_keeps_what_it_has_measured_before_it_fails(
    short_calibrate, monkeypatch
):
    def measured(samples, size, some):
        if size == 17:
            raise OSError("no more processes")
        for cell in some:
            samples[cell].append(Sample(1e-6, 1e-7))

    monkeypatch.setattr(measuring, "numbers_of_ranks", lambda _: [2, 3, 17])
    monkeypatch.setattr(measuring, "_add", measured)
    assert CliRunner().invoke(main, ["calibrate"]).exit_code != 0
    assert {one.ranks for one in known(short_calibrate).ratios} == {2, 3}


@pytest.mark.usefixtures("short_calibrate", "distances")
def test_calibrate_measures_and_tells_what_it_has_measured():
    quick = CliRunner().invoke(main, ["calibrate", "--quick"])
    assert quick.exit_code == 0, quick.output
    assert "no collectives measured" in quick.output
    whole = CliRunner().invoke(main, ["calibrate"])
    assert whole.exit_code == 0, whole.output
    shown = CliRunner().invoke(main, ["calibrate", "--show"])
    for result in (whole, shown):
        assert (
            "collectives of 2 ranks at a handoff of 100 ns: measured" in result.output
        )
