"""The options for faults: what each command says of them."""

import json
import os
import re
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from collalgo import Topology, select, simulate
from collalgo.cli.main import main
from collalgo.cli.selection_table import show
from collalgo.selection.losses import Loss
from collalgo.selection.selection import Selection
from collalgo.topology.compare import differences
from collalgo.topology.document import text
from tests.support.commands import run

FAULTS = ("--without", "gpu0-gpu3", "--degraded", "gpu1-gpu5=0.5")

APART = ("--without", "host0-host1")


def test_select_tells_what_a_fault_costs():
    text = run("select", "allgather", "1G", "--topology", "dgx1v", *FAULTS)
    assert "dgx1v with gpu1-gpu5 at 0.5 without gpu0-gpu3" in text
    raised = r"without the faults .* by .*; the faults raise the time by a factor of"
    assert re.search(
        rf"{raised} 1\.\d+ and the bound by 1\.\d+", " ".join(text.split())
    )
    assert re.search(r"that schedule would take .*, [1-9]\.\d+ times the choice", text)


def test_a_fault_that_does_not_raise_the_time_is_no_factor_below_one():
    def one(seconds, size):
        words = SimpleNamespace(words="ring")
        return SimpleNamespace(
            seconds=seconds, size=size, bound_seconds=None, choice=words
        )

    same = Loss(one(0.99, 4), one(1.0, 4), 1.5)
    assert "the faults do not raise the time\n" in str(same)
    assert same.kept == 1
    assert "fewer ranks" in str(Loss(one(0.5, 3), one(1.0, 4), None))


@pytest.mark.parametrize(
    ("name", "why"),
    [("synthesized", "was synthesised for"), ("ring", "has an order of the ranks")],
)
def test_a_cheaper_schedule_that_is_no_candidate_is_explained(name, why):
    row = SimpleNamespace(base_name=name)
    words = SimpleNamespace(words=name)
    one = SimpleNamespace(seconds=1, size=4, bound_seconds=None, choice=words, row=row)
    assert f"0.98 times the choice; it {why}" in str(Loss(one, one, 0.98))
    assert str(Loss(one, one, 1.0)).endswith("1.00 times the choice")


def test_the_table_explains_a_cheaper_schedule_too(capsys):
    machine = Topology.load("dgx1v")
    chosen = [select("allgather", n, topology=machine) for n in ("1M", "4M")]
    losses = [
        Loss(one, one, one.seconds * part)
        for one, part in zip(chosen, (0.98, 1), strict=True)
    ]
    show(chosen, {}, losses)
    told = capsys.readouterr().out
    assert "its schedule of 1 MiB is cheaper than the choice: it " in told


def test_the_candidates_of_one_size_are_priced_while_progress_is_shown(monkeypatch):
    shown, priced = [], []

    @contextmanager
    def patience(what):
        shown.append(what)
        yield
        shown.remove(what)

    def explain(*words):
        priced.extend(shown)
        return explained(*words)

    def as_dict(one):
        priced.extend(shown)
        return of_one(one)

    explained, of_one = Selection.explain, Selection.as_dict
    monkeypatch.setattr("collalgo.cli.select.patience", patience)
    monkeypatch.setattr(Selection, "explain", explain)
    monkeypatch.setattr(Selection, "as_dict", as_dict)
    for more, word in (([], "pricing"), (["--json"], "pricing every candidate")):
        priced.clear()
        run("select", "allgather", "1M", "--topology", "dgx1v", *more)
        assert priced == [word]


def test_the_schedule_of_the_whole_machine_is_priced_with_the_faults():
    words = ("select", "broadcast", "--size", "8K", "--topology", "dgx1v", "--json")
    whole = json.loads(run(*words))
    broken = json.loads(run(*words, *FAULTS))
    assert broken["whole"]["seconds"] == whole["seconds"]
    assert broken["whole"]["algorithm"] == whole["algorithm"]
    machine = Topology.load("dgx1v").degraded("gpu1-gpu5", 0.5).without("gpu0-gpu3")
    told = simulate(whole["algorithm"], machine, 1 << 13, collective="broadcast")
    assert broken["whole"]["seconds_with_faults"] == pytest.approx(told.seconds)
    assert broken["seconds"] <= told.seconds * (1 + 1e-9)


def test_a_stream_is_read_once():
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as file:
        file.write(text(Topology.load("dgx1v")))
    try:
        found = run("bound", "broadcast", f"/dev/fd/{reading}", *FAULTS)
    finally:
        os.close(reading)
    assert "without the faults at least" in found


def test_a_range_of_sizes_has_columns_of_losses_and_lost_ranks_have_no_old_schedule():
    words = ("select", "broadcast", "--size", "8,1K", "--topology", "dgx1v")
    assert "x whole" in run(*words, *FAULTS)
    assert "cannot run" in run(*words, "--without", "gpu7")
    assert "x whole" not in run(*words)


def test_bound_and_simulate_and_topo_see_the_faults():
    whole = run("bound", "broadcast", "dgx1v")
    broken = run("bound", "broadcast", "dgx1v", *FAULTS)
    assert "without the faults at least" in broken
    assert whole.partition(",")[0] != broken.partition(",")[0]
    fewer = run("bound", "scatter", "dgx1v", "--without", "gpu7")
    assert "leave fewer ranks and change it by a factor of 0." in fewer
    ring = ("simulate", "allgather", "ring", "dgx1v")
    assert run(*ring) != run(*ring, *FAULTS)
    assert "nic3" in run("topo", "show", "dgx1v")
    assert "nic3 " not in run("topo", "show", "dgx1v", "--without", "nic3")[30:]


@pytest.mark.parametrize("faults", [FAULTS, ("--without", "gpu7"), ()])
def test_a_machine_with_faults_is_written_to_a_file(tmp_path, faults):
    file = str(tmp_path / "broken.yaml")
    run("topo", "convert", "dgx1v", *faults, "-o", file)
    expected = Topology.load("dgx1v")
    for option, name in zip(faults[::2], faults[1::2], strict=True):
        link, _, factor = name.partition("=")
        is_lost = option == "--without"
        part = expected.without(link) if is_lost else None
        expected = part or expected.degraded(link, float(factor))
    assert differences(Topology.read(file), expected) == []
    changed = CliRunner().invoke(main, ["topo", "diff", "dgx1v", file])
    assert changed.exit_code == bool(faults)


def test_names_of_faults_may_be_lists():
    words = ("topo", "show", "dgx1v", "--without")
    assert run(*words, "nic3,nic2") == run(*words, "nic3", "--without", "nic2")
    words = ("bound", "broadcast", "dgx1v", "--degraded")
    both = run(*words, "nic3=0.5", "--degraded", "gpu1-gpu5=0.5")
    assert run(*words, "nic3=0.5, gpu1-gpu5=0.5") == both


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("bound", "broadcast", "dgx1v", "--without", "gpu9"), "no device, host or"),
        (("bound", "broadcast", "dgx1v", "--degraded", "gpu0"), "NAME=FRACTION"),
        (("bound", "broadcast", "dgx1v", "--degraded", "gpu0=2"), "at most 1"),
        (("bound", "broadcast", "dgx1v", "--degraded", "a=0"), "write --without a if"),
        (
            ("bound", "broadcast", "dgx1v", *FAULTS, "--degraded", "gpu5-gpu1=0.25"),
            "has two faults: gpu1-gpu5 at 0.5, and gpu5-gpu1 at 0.25; give one",
        ),
        (("topo", "show", "dgx1v", *FAULTS, "--without", "gpu3-gpu0"), "two faults"),
        (("select", "broadcast", "8", "-n", "2", "--without", "gpu0"), "--topology"),
        (
            (*("select", "broadcast", "8", "--topology", "mesh", "dims=2"), *APART),
            "cannot reach host1",
        ),
    ],
)
def test_a_fault_that_cannot_be_is_one_sentence(words, reason):
    found = CliRunner().invoke(main, words)
    assert found.exit_code, found.output
    assert reason in " ".join(found.output.split())
