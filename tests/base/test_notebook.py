"""What notebooks show: pictures, or texts with the reason why there are none."""

import pickle
import sys
from html import escape

import pytest

import collalgo
from collalgo import Topology
from collalgo.schedule import proof
from collalgo.topology import draw


def star(group):
    """Rank 0 sends its buffer to all others."""
    if group.rank == 0:
        yield tuple(collalgo.send(peer, group.whole) for peer in range(1, group.size))
    else:
        yield collalgo.recv(0, group.whole)


def shown(of):
    """What a notebook asks an object for: SVG and HTML."""
    ask = (getattr(of, name, lambda: None) for name in ("_repr_svg_", "_repr_html_"))
    return tuple(each() for each in ask)


def test_a_topology_is_a_picture():
    pytest.importorskip("matplotlib")
    picture, words = shown(Topology.load("dgx1v"))
    assert picture.startswith("<svg")
    assert words is None


def test_a_large_topology_is_text_with_the_reason(monkeypatch):
    pytest.importorskip("matplotlib")
    picture, words = shown(Topology.load("torus", dims=(40, 40)))
    assert picture is None
    assert "1600 host; 3200 links&gt;</pre>" in words
    assert "1600 devices are too many for a picture, at most 1000" in words
    monkeypatch.setattr(draw, "MOST_IN_NOTEBOOKS", 10)
    assert "take long to draw" in shown(Topology.load("dgx1v"))[1]
    assert "there are no devices to draw" in shown(Topology("empty"))[1]


def test_without_matplotlib_a_topology_is_text_with_the_package(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("matplotlib")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    picture, words = shown(Topology.load("dgx1v"))
    assert picture is None
    assert "pip install &#x27;collalgo[plot]&#x27;" in words


def test_a_failure_to_draw_is_no_error_of_a_notebook(monkeypatch):
    machine = Topology.load("dgx1v")

    def fail(*_):
        raise AssertionError("unexpected")

    monkeypatch.setattr(draw, "svg", fail)
    monkeypatch.setattr(draw, "obstacle", lambda _: "")
    assert shown(machine) == (None, None)
    monkeypatch.setattr(draw, "obstacle", fail)
    assert shown(machine) == (None, None)


def test_a_name_of_a_file_is_no_element_of_the_page():
    machine = Topology("<script>alert(1)</script>", "a test")
    picture, words = shown(machine)
    assert "<script" not in (picture or "") + words


def test_a_proof_is_a_picture_of_its_schedule():
    found = collalgo.verify(star, size=4, collective="broadcast")
    picture, words = shown(found)
    assert picture.count("marker-end") == 3
    assert str(found) in picture
    assert words is None
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert hash(copy) == hash(found)
    assert "not kept with this copy" in shown(copy)[1]


def test_a_proof_of_many_ranks_is_text_with_the_reason(monkeypatch):
    monkeypatch.setattr(proof, "MOST_DRAWN", 2)
    picture, words = shown(collalgo.verify("ring", size=3, collective="allreduce"))
    assert picture is None
    assert "allreduce of 3 ranks: 4 steps" in words
    assert "a picture of 3 ranks is too large, at most 2" in words


def test_a_selection_is_a_table_with_the_choice_first():
    chosen = collalgo.select("allreduce", "1M", topology=Topology.load("dgx1v"))
    _, words = shown(chosen)
    first, second = (words.index(escape(c.words)) for c in chosen.distinct[:2])
    assert first < second
    assert f"<b>{escape(chosen.choice.words)}" in words
    assert "lower bound" in words
    assert words.count("<tr>") == 1 + 10 + 1
