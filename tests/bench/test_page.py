"""The page of a measurement: its tables, its plots and its keys in a browser."""

import pytest
from click.testing import CliRunner
from collalgo.bench.cli import main
from collalgo.bench.page import Results
from collalgo.bench.records import as_json

from tests.support.bench_results import cell_of
from tests.support.browser import reports

SIZES = (16, 1024, 1 << 20)


@pytest.fixture
def results(tmp_path):
    """Rows of ours and of a peer, which is slower but for one size, from a file."""
    rows = [
        cell_of(
            *("ring", [scale * size * 1e-9 + 1e-6] * 2),
            size=size,
            collective="allgather",
            contestant=name,
        )
        for size in SIZES
        for name, scale in (("collalgo", 1.0), ("mpich", 2.0 if size > 16 else 0.0))
    ]
    path = tmp_path / "rows.json"
    path.write_text(as_json(rows, {"cores": 2, "ranks": 2, "processor": "<a CPU>"}))
    return Results.read(path)


def test_a_page_has_the_tables_of_the_command_and_the_machine(results):
    text = results.page()
    assert "times of collalgo, and times of the peers divided by them" in text
    assert "time of mpich / collalgo" in text
    assert "&lt;a CPU&gt;" in text
    assert text.count('<figure class="chart">') == 2
    assert text.count('class="line strong k0"') == 2
    for size in ("16 B", "1 KiB", "1 MiB"):
        assert text.count(f">{size}</td>") == 3  # of the ratios, ours, the peer's


def test_notebooks_show_results_as_a_page_or_the_reason(results, monkeypatch):
    assert results._repr_html_().startswith("<iframe srcdoc=")
    empty = Results([], {})
    assert "there are no rows" in empty._repr_html_()
    monkeypatch.setattr("collalgo.bench.page.MOST_ROWS", 2)
    assert "6 rows are too many for a page" in results._repr_html_()


def test_the_command_writes_a_page_and_keeps_a_changed_one(tmp_path):
    page = tmp_path / "report.html"
    words = ["allreduce", "-s", "8", "--calls", "2", "--html", str(page)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    assert "<h1>allreduce on 1 rank</h1>" in page.read_text()
    page.write_text("mine")
    refused = CliRunner().invoke(main, words)
    assert refused.exit_code == 1
    assert "is not a page that collalgo has written" in refused.output


SCRIPT = """
  const all = selector => [...document.querySelectorAll(selector)];
  const [svg] = all("svg.whole"), [inside] = all("svg.inside");
  const press = (key, target = svg) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const ticks = () => [...svg.querySelectorAll(".ticks text")]
    .map(text => text.textContent).join();
  const whole = ticks();
  report("whole", whole);
  press("+"); press("+"); press("+");
  report("zoomed", ticks() !== whole);
  report("view", inside.getAttribute("viewBox").split(" ")[2] < 300);
  press("ArrowRight"); press("-"); press("0");
  report("again", ticks() === whole);
  all(".legend input")[1].click();
  report("hidden", all("g[data-line='1']").map(group => group.style.display));
  const table = document.getElementById("table1");
  const sizes = () => [...table.tBodies[0].rows]
    .map(row => row.cells[0].textContent).join();
  const button = table.querySelector("thead button");
  button.click(); report("up", sizes());
  button.click(); report("down", sizes());
  report("sorted", table.querySelector("th").getAttribute("aria-sort"));
  const [search] = all("input[data-table=table1]");
  search.value = "mpich 1 MiB";
  search.dispatchEvent(new Event("input"));
  report("rows", all("output[data-table=table1]")[0].textContent);
  press("/", document);
  report("focus", document.activeElement.type);
"""


def test_a_page_has_keys_in_a_browser(results, tmp_path):
    found = reports(results.page(), SCRIPT, tmp_path)
    whole = found.pop("whole")
    assert "1 KiB" in whole
    sizes = ",".join(f"{size},{size}" for size in ("16 B", "1 KiB", "1 MiB"))
    assert found == {
        "zoomed": "true",
        "view": "true",
        "again": "true",
        "hidden": "none,none",
        "up": sizes,
        "down": ",".join(reversed(sizes.split(","))),
        "sorted": "descending",
        "rows": "1 of 6 rows",
        "focus": "search",
    }
