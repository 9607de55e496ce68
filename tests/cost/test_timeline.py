"""The timeline of messages, as a trace and as a picture."""

import json

import pytest
from click.testing import CliRunner

from collalgo import Topology, TopologyError, simulate
from collalgo.base import plotting
from collalgo.cli.main import main
from collalgo.cost import timeline as module
from collalgo.cost.simulation import MODELS
from collalgo.cost.timeline import timeline

MIB = 1 << 20


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["ring", "halving_doubling", "linear"])
def test_the_last_message_ends_with_the_schedule(name, model):
    machine = Topology.load("dgx1v", hosts=2, nics=2)
    found = timeline(name, machine, MIB, collective="allreduce", model=model)
    whole = simulate(name, machine, MIB, collective="allreduce", model=model)
    assert found.end.max() == pytest.approx(whole.seconds)
    assert (found.begin < found.end).all()
    assert found.begin.min() == 0


def test_a_message_leaves_when_its_rank_is_done_with_the_step_before():
    machine = Topology.load("dgx_a100")
    found = timeline("ring", machine, MIB, collective="allgather")
    spans = found.spans()
    for rank in range(8):
        for step in range(1, 7):
            assert spans[rank, step][0] >= spans[rank, step - 1][1] * (1 - 1e-9)


def test_a_trace_has_a_track_for_each_rank_and_an_arrow_for_each_message(tmp_path):
    machine = Topology.load("dgx_a100")
    found = timeline("two_shot", machine, MIB, collective="allreduce")
    found.write(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kinds = [event["ph"] for event in events]
    assert kinds.count("M") == 8
    assert kinds.count("s") == kinds.count("f") == 2 * 8 * 7
    assert kinds.count("X") == 2 * 8 + 2 * 8 * 7
    arrows = {e["id"]: e["ts"] for e in events if e["ph"] == "s"}
    assert all(arrows[e["id"]] < e["ts"] for e in events if e["ph"] == "f")


def test_too_many_messages_are_not_drawn(monkeypatch, tmp_path):
    found = timeline("ring", Topology.load("dgx1v"), MIB, collective="allreduce")
    monkeypatch.setattr(module, "DRAWN", 10)
    with pytest.raises(TopologyError, match="cannot draw 112 messages, at most 10"):
        found.write(tmp_path / "picture.svg")


def test_the_command_draws(tmp_path):
    path = tmp_path / "picture.svg"
    words = ["simulate", "broadcast", "binomial", "dgx1v", "--timeline", str(path)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "<svg" in path.read_text()[:1000]


def test_the_last_bar_ends_at_the_edge_and_can_be_told_from_the_paper(
    monkeypatch, tmp_path
):
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(
        plotting, "save", lambda figure, *_, **__: figures.append(figure)
    )
    machine = Topology.load("dgx1v", hosts=2)
    timeline("ring", machine, MIB, collective="allgather").draw(tmp_path / "x.svg")
    (axes,) = figures[0].axes
    bars = axes.patches
    assert len(bars) == 16 * 15
    last = max(bars, key=lambda bar: bar.get_x() + bar.get_width())
    assert last.get_x() + last.get_width() == pytest.approx(axes.get_xlim()[1])
    assert all(min(bar.get_facecolor()[:3]) < 0.85 for bar in bars)
    words = {text.get_text() for text in figures[0].legends[0].get_texts()}
    assert words == {name for _, name in (*module.STEPS, *module.MESSAGES.values())}
    assert axes.get_xlabel().startswith("time in ")
