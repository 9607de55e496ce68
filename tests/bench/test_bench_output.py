"""What bench prints, compares and draws is clear to one who did not write it."""

from contextlib import redirect_stdout
from io import StringIO

import pytest
from click.testing import CliRunner
from collalgo.bench.cells import Cell
from collalgo.bench.choices import winners
from collalgo.bench.cli import main
from collalgo.bench.measuring import measure, particulars
from collalgo.bench.plot import MOST_INSIDE, lines_of, plot
from collalgo.bench.records import ALSO_CHOSEN, AS_ASKED, as_json, record
from collalgo.bench.report import legend, tables
from collalgo.bench.sweep import Sweep

from collalgo import Topology, select, threads
from collalgo.base import plotting
from collalgo.base.console import wide_console


def made(**values):
    """A row of results."""
    row = record(Cell("allreduce", 1000), 2, [[1e-3, 1.1e-3]], predicted=1e-3)
    return row._replace(**{"algorithm": "ring", **values})


def bench(*arguments):
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def files_of(folder, **by_name):
    """Files of results with these records."""
    files = [folder / f"{name}.json" for name in by_name]
    for file, records in zip(files, by_name.values(), strict=True):
        file.write_text(as_json(records, {}))
    return list(map(str, files))


def test_a_comparison_of_nothing_says_what_differs(tmp_path):
    others = {"new": [made(algorithm="two_shot")], "far": [made(ranks=7, size=3)]}
    old, new, far = files_of(tmp_path, old=[made()], **others)
    told = " ".join(bench("compare", old, new).output.split())
    assert "algorithm is ring in OLD, two_shot in NEW" in told
    assert "measure both in one run, as by collalgo bench -a ring,two_shot" in told
    told = " ".join(bench("compare", old, far).output.split())
    assert "ranks is 2 in OLD, 7 in NEW; size is 1000 in OLD, 3 in NEW" in told
    assert "algorithm" not in told


def test_several_results_are_lines_of_one_picture(tmp_path):
    pytest.importorskip("matplotlib")
    first, second = files_of(tmp_path, first=[made()], second=[made()])
    picture = str(tmp_path / "both.svg")
    assert bench("plot", first, second, picture, "allreduce").exit_code == 0
    named = {"first": [made()], "second": [made()]}
    assert list(lines_of(named, "allreduce")) == ["first", "second"]
    assert list(lines_of({"": [made()]}, "allreduce")) == ["collalgo"]
    told = bench("plot", first)
    assert told.exit_code == 2
    assert "collalgo bench plot RESULTS... PICTURE" in told.output
    missing = bench("plot", str(tmp_path / "none.json"), picture, "--force")
    assert "none.json holds no results" in missing.output
    assert "'json'" in bench("plot", first, second).output


@pytest.mark.parametrize("count", [2, 8, 11, 20, 33])
def test_every_algorithm_of_a_picture_has_a_line_of_its_own(count, monkeypatch):
    pytest.importorskip("matplotlib")
    saved = []
    monkeypatch.setattr(plotting, "save", lambda figure, *_, **__: saved.append(figure))
    names = [f"a{i}" for i in range(count)]
    rows = [made(size=size, algorithm=a) for a in names for size in (8, 64)]
    plot({"": rows}, "x.svg")
    left, right = saved[0].axes
    assert sorted(line.get_label() for line in left.lines) == sorted(names)
    looks = {(line.get_color(), line.get_linestyle()) for line in left.lines}
    assert len(looks) == count
    inside = left.get_legend() is not None
    assert inside != (right.get_legend() is not None)
    assert inside == (count <= MOST_INSIDE)


def test_a_sweep_of_places_is_a_line_for_each_place():
    rows = [made(place=p, size=s) for p in ("out", "in") for s in (8, 64)]
    rows[0] = rows[0]._replace(algorithm="one_shot")  # the choice of its size
    assert list(lines_of({"": rows}, "allreduce")) == ["out", "in"]


def test_what_is_asked_for_has_that_reason():
    def run(*names):
        sweep = Sweep(sizes=(64,), algorithms=names, iterations=2)
        return threads(lambda comm: measure(comm, sweep), 2)[0]

    (chosen,) = run()
    asked = run(chosen.algorithm, "pipeline")
    assert [r.reason for r in asked] == [ALSO_CHOSEN, AS_ASKED]
    assert chosen.reason not in (ALSO_CHOSEN, AS_ASKED)
    reasons = {r.algorithm: r.reason for r in run("all")}
    assert reasons[chosen.algorithm] == chosen.reason
    (cells,) = winners(asked).columns[-2].cells
    assert cells == chosen.algorithm


@pytest.mark.parametrize("size", [1 << 10, 1 << 20])
def test_between_hosts_the_floor_is_the_bound_of_the_links(size):
    machine = Topology.load("dgx1v", hosts=2)
    chosen = select("reduce_scatter", size, topology=machine, algorithm="ring")
    cell = Cell("reduce_scatter", size)
    found = particulars(cell, chosen, None)
    assert found["floor"] == chosen.bound_seconds > 0
    for here, words in ((2, "copies and sums"), (1, "bound of the links")):
        assert words in " ".join(legend([made()], {"ranks_here": here}))


def test_the_legend_explains_only_columns_that_are_shown():
    (line,) = legend([made()], {"ranks_here": 2})
    assert line.startswith("predicted: ")
    (line,) = legend([made()], {"ranks_here": 2}, predicted=False)
    assert line.startswith("floor: ")


def test_the_calls_of_bench_are_not_taken_for_ranks():
    few = ["-e", "8", "--calls", "3", "-c", "0", "--no-fresh-sizes"]
    told = bench(*few).output
    assert "allreduce, 1 rank, float32" in told
    assert not told.startswith("\n")
    assert "--calls" in bench("run", "--help").output


def test_tables_are_as_wide_as_they_need_where_there_is_no_terminal():
    why = " ".join(["decided"] * 60)
    out = StringIO()
    with redirect_stdout(out):
        wide_console().print(*tables([made(reason=why)]))
    assert why in out.getvalue()
