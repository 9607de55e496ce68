"""The pages that are made from the code are what it makes, and say what is so."""

import re
from pathlib import Path

import pytest
from collalgo.bench.disturbances.__main__ import PARTS

from collalgo import ALGORITHMS, Topology, select
from collalgo.algorithms.catalogue import find
from collalgo.base.json_files import read_json
from collalgo.cost.messages import all_messages
from docs import (
    arena,
    elastic_figures,
    fast_links,
    folklore,
    generate,
    over_bounds,
    peer_algorithms,
    prices,
    ratios,
    stubs,
    uneven_clusters,
    vocabulary,
    words,
)
from tests.support.leisure import at_leisure

DOCS = Path(folklore.__file__).parent

#: The pages that are made in a moment.
QUICK = [words, vocabulary, peer_algorithms]

#: The pages of kept results.
OF_RESULTS = [elastic_figures, fast_links, over_bounds, uneven_clusters]


@pytest.mark.parametrize(
    "module",
    at_leisure(
        [arena, folklore, ratios, prices, *QUICK, *OF_RESULTS],
        [*QUICK, *OF_RESULTS],
    ),
)
def test_a_page_is_what_the_code_makes(module):
    """Pages that price all algorithms on many machines take long."""
    name = module.__name__.rpartition(".")[2]
    assert (DOCS / f"{name}.md").read_text() == module.page(), "run make docs"


def test_the_page_of_ratios_has_all_algorithms():
    text = (DOCS / "ratios.md").read_text()
    for collective in ("allreduce", "allgather"):
        parts = text.split(f"## {collective} of ")[1:]
        assert len(parts) == len(ratios.SIZES)
        rows = [row for row in ALGORITHMS if row.collective == collective]
        names = {row.base_name for row in rows if not row.by_name}
        for part in parts:
            table = part.partition("## ")[0]
            assert names <= set(re.findall(r"^\| (\w+) \|", table, re.MULTILINE))


def test_no_published_allgather_is_faster_by_more_than_start_up():
    text = (DOCS / "arena.md").read_text()
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| TACOS")]
    assert len(rows) == 5
    for row in rows:
        published, chosen = (float(row[i].removesuffix(" ms")) for i in (2, 3))
        assert chosen < 1.005 * published
    rows = [row.split(" | ") for row in text.splitlines() if row.startswith("| TE-CCL")]
    assert len(rows) == 2
    for row in rows:
        published, chosen = (float(row[i].removesuffix(" GB/s")) for i in (2, 3))
        assert chosen > published


def test_all_late_ranks_delay_less_than_published():
    text = (DOCS / "arena.md").read_text().partition("## A late rank")[2]
    rows = [row.strip("| ").split(" | ") for row in text.splitlines() if "| " in row]
    rows = [row for row in rows if row[0].isdigit()]
    assert [int(row[0]) for row in rows] == [*arena.LATE]
    assert all(float(row[2]) > float(row[1]) for row in rows)


@pytest.mark.parametrize("one", prices.PUBLISHED)
def test_measured_bandwidths_are_what_protocols_leave_of_predicted_ones(one):
    assert 0.7 < one.bandwidth / prices.bus_bandwidth(one) < 1


def test_the_page_of_prices_is_of_all_machines_and_none_is_below_its_bound():
    text = (DOCS / "prices.md").read_text()
    rows = text.partition("## Prices and bounds")[2].splitlines()
    named = [row.split(" | ")[0].strip("| ") for row in rows if row.startswith("| ")]
    assert named[1:] == [name for name, _ in prices.machines()]
    ratios_ = [float(found) for found in re.findall(r", (\d+\.\d+)", "".join(rows))]
    assert len(ratios_) > 500
    assert min(ratios_) >= 1


def test_the_stub_of_the_methods_is_what_the_functions_declare():
    assert stubs.STUB.read_text() == stubs.stub(), "run make docs"


def price_of(chosen, name):
    named = [c for c in chosen.able if c.algorithm.partition("(")[0] == name]
    return min(c.seconds for c in named)


@pytest.mark.parametrize("hosts", [2, 4, 16])
def test_with_one_nic_a_2d_ring_in_segments_comes_close_for_long_messages(hosts):
    cluster = Topology.load(folklore.SERVER, hosts=hosts, nics=1)
    chosen = select("allreduce", 1 << 28, topology=cluster)
    assert price_of(chosen, "ring_2d") < 1.06 * chosen.seconds
    whole = [c for c in chosen.able if c.algorithm == f"ring_2d(dims=(8, {hosts}))"]
    assert min(c.seconds for c in whole) > 1.2 * chosen.seconds


@pytest.mark.parametrize("nics", at_leisure([2, 4, 8], {4}))
def test_with_several_nics_direct_columns_win_far_beyond_a_mebibyte_in_segments(nics):
    cluster = Topology.load(folklore.SERVER, hosts=16, nics=nics)
    middle = select("allreduce", 1 << 20, topology=cluster)
    assert middle.algorithm == "bcube(dims=(8, 4, 4))"
    long = select("allreduce", 1 << 28, topology=cluster)
    of_table = [one for one in long.able if one.row.base_name != "synthesized"]
    assert of_table[0].algorithm == "bcube(dims=(8, 4, 4), segments=16)"
    seconds = {c.algorithm: c.seconds for c in long.able if c.order == ""}
    rings = min(price_of(long, "multi_ring"), price_of(long, "bidirectional_ring"))
    assert rings < seconds["bcube(dims=(8, 4, 4))"]
    assert price_of(long, "ring") > 1.9 * long.seconds


def test_a_mesh_sends_eight_times_what_a_torus_sends():
    found = {}
    for name in ("torus_2d", "mesh_2d"):
        row = find("allreduce", f"{name}(dims=(8, 4))", 32)
        found[name] = folklore.leaving(all_messages(row.schedule, 32), 8)
    assert found["mesh_2d"] == pytest.approx(8 * found["torus_2d"])


def test_the_picture_is_drawn(tmp_path):
    folklore.draw_thousand(tmp_path / "ring.svg")
    assert "<svg" in (tmp_path / "ring.svg").read_text()[:1000]


def elastic_figure(**changes):
    row = {"unit": "ms", "aim": [20, None], "trials": 10, "reached": False}
    return {**row, **changes}


@pytest.mark.parametrize(
    ("figure", "load", "verdict"),
    [
        (elastic_figure(), 0.3, "missed"),
        (elastic_figure(), 1.3, "open"),
        (elastic_figure(reached=True), 0.3, "reached"),
        (elastic_figure(reached=True), 1.3, "reached"),
        (elastic_figure(reached=True, unit="x"), 1.3, "open"),
        (elastic_figure(reached=None), 0.3, "too few trials"),
    ],
)
def test_a_busy_machine_misses_no_aim_of_an_elastic_job(figure, load, verdict):
    assert elastic_figures._aim(figure, load).endswith(f": {verdict}")


def test_the_page_of_elastic_jobs_names_the_command_that_makes_it():
    shown = elastic_figures.page().partition("```sh\n")[2].partition("```")[0]
    lines = shown.replace("\\\n", "").splitlines()
    named = [word for line in lines for word in line.split() if word in PARTS]
    parts = read_json(elastic_figures.RESULTS)["parts"]
    assert sorted(named) == sorted(parts)
    for line in lines:
        (trials,) = re.findall(r"trials (\d+)", line)
        for name in set(line.split()) & set(parts):
            counts = [figure["trials"] for figure in parts[name]["figures"]]
            assert max(counts) == int(trials)


def test_an_unknown_page_is_answered_by_the_known_ones(monkeypatch):
    written = []
    for name in generate.PAGES:
        monkeypatch.setitem(
            generate.PAGES, name, lambda name=name: written.append(name)
        )
    with pytest.raises(SystemExit, match="no page tables; the pages are algorithms,"):
        generate.main(["words", "tables"])
    assert written == []
    generate.main(["words", "layers"])
    assert written == ["words", "layers"]
    generate.main([])
    assert written[2:] == list(generate.PAGES)
