"""The command that compares predicted with measured times."""

import json

import pytest
from click.testing import CliRunner
from collalgo.bench import prices
from collalgo.bench.prices import Price, errors, prices_of, spread, worst

from collalgo import threads
from collalgo.base.json_files import read_json
from collalgo.cli.main import main
from collalgo.schedule.collective import COLLECTIVES
from docs.pages import percent
from tests.support.paths import ROOT


def price(predicted, measured, nbytes=8):
    return Price("scan", 2, nbytes, 0, "linear", predicted, measured, 1e-7)


@pytest.mark.parametrize(
    ("predicted", "measured", "error"),
    [(1e-6, 1e-6, 0.0), (1e-6, 2e-6, 0.5), (2e-6, 1e-6, 1.0), (3e-6, 1e-6, 2.0)],
)
def test_an_error_is_a_part_of_the_measured_time(predicted, measured, error):
    assert price(predicted, measured).error == pytest.approx(error)


def test_the_errors_are_the_median_and_the_95th_percentile_of_all_times():
    found = [price(1e-6 * (1 + part / 100), 1e-6) for part in range(101)]
    assert errors(found) == (pytest.approx(0.5), pytest.approx(0.95))


def test_each_round_is_compared_with_all_others_of_its_cell():
    times = [price(1e-6, measured) for measured in (1e-6, 2e-6)]
    assert spread(times) == pytest.approx((0.5 + 1) / 2)
    assert spread([*times, price(1e-6, 9e-6, 64)]) == spread(times)
    assert spread(times[:1]) is None


def test_the_page_has_the_errors_of_the_kept_prices():
    kept = read_json(ROOT / "bench" / "results" / "prices.json")["prices"]
    page = (ROOT / "docs" / "selection.md").read_text()
    for ranks in (2, 4, 8):
        some = [Price(**row) for row in kept if row["ranks"] == ranks]
        shown = " | ".join(percent(part) for part in (*errors(some), spread(some)))
        assert f"| {ranks} | {shown} |\n" in page


def test_the_worst_cells_come_first():
    exact, bad, worse = (
        price(1e-6, 1e-6),
        price(2e-6, 1e-6, 64),
        price(9e-6, 1e-6, 4096),
    )
    lines = [*worst([exact, bad, worse, exact, bad], 2)]
    assert [line.split(" on ")[0] for line in lines] == [
        "scan of 4 KiB",
        "scan of 64 B",
    ]
    assert "predicted 9 us, measured 1 us (error 800%)" in lines[0]


@pytest.mark.deadline
def test_each_collective_is_priced_and_measured(monkeypatch):
    monkeypatch.setattr("collalgo.bench.corrections.BUDGET", 1e-4)
    found = threads(lambda comm: prices_of(comm, [64], 0), 2)[0]
    assert {one.collective for one in found} == set(COLLECTIVES)
    assert all(one.predicted > 0 and one.measured > 0 for one in found)


def test_the_command_prints_and_writes_the_rows_of_all_rounds(monkeypatch, tmp_path):
    found = []

    def measured(work, size):
        found.append((size, work.keywords["number"]))
        return [price(1e-6, 1e-6)._replace(ranks=size)]

    monkeypatch.setattr(prices, "_on_ranks", measured)
    asked = ["bench", "prices", "-n", "2", "-n", "3", "--rounds", "2", "--json"]
    done = CliRunner().invoke(main, [*asked, str(tmp_path / "prices.json")])
    assert done.exit_code == 0, done.output
    assert found == [(2, 0), (3, 0), (2, 1), (3, 1)]
    kept = json.loads((tmp_path / "prices.json").read_text())
    rows, command = kept["prices"], kept["command"]
    assert isinstance(command, str)
    assert [row["ranks"] for row in rows] == [2, 3, 2, 3]
    assert "0.0%" in done.output
