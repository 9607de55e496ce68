"""Pictures of topologies: the lines of links, the marks of faults, and the legend."""

import pytest

from collalgo import Topology, TopologyError
from collalgo.base import plotting
from collalgo.topology.draw import draw
from collalgo.topology.draw_lines import FAILED, SLOW, left_of
from collalgo.topology.faults import WHOLE, Faults
from tests.support.host_networks import network

pytest.importorskip("matplotlib")


@pytest.fixture
def drawn(monkeypatch):
    """A function that draws, and returns the legend and the texts of the picture."""
    found = []

    def save(figure, path, **_):
        (axes,) = figure.axes
        legend = {
            text.get_text(): line
            for text, line in zip(
                axes.get_legend().get_texts(),
                axes.get_legend().get_lines(),
                strict=True,
            )
        }
        texts = {text.get_text(): text for text in axes.texts}
        found.append((legend, texts, axes))

    def run(topology, faults=WHOLE, host=None):
        draw(topology, "x.svg", host, faults=faults)
        return found.pop()

    monkeypatch.setattr(plotting, "save", save)
    return run


def colours(axes):
    """The colours of all arcs and lines of links."""
    from matplotlib.colors import to_hex

    arcs = [text.arrow_patch for text in axes.texts if hasattr(text, "arrow_patch")]
    straight = [colour for lines in axes.collections for colour in lines.get_color()]
    arcs = [arc.get_edgecolor() for arc in arcs if arc is not None]
    return list(map(to_hex, (*arcs, *straight)))


def test_a_failed_link_is_dashed_in_red_and_a_slow_one_has_its_fraction(drawn):
    whole = Topology.load("dgx1v")
    legend, texts, axes = drawn(whole)
    assert not {FAILED, SLOW} & {*colours(axes)}
    assert not any("failed" in text or "slow" in text for text in legend)
    faults = Faults(("gpu0-gpu3",), (("gpu1-gpu5", 0.5), ("gpu0-pci0", 0.125)))
    legend, texts, axes = drawn(whole, faults)
    assert sorted(c for c in colours(axes) if c in (FAILED, SLOW)) == [
        FAILED,
        *[SLOW] * 2,
    ]
    assert len(colours(axes)) == len(whole.links)
    assert {"0.5", "0.125"} <= {*texts}
    assert "slow, left: 0.125, 0.5" in legend
    assert legend["failed"].get_linestyle() == "--"


def test_a_failed_device_stays_in_the_picture_in_red(drawn):
    whole = Topology.load("dgx1v", hosts=2)
    for faults, host, name in (
        (Faults(("host1/gpu7",)), "host1", "gpu7"),
        (Faults(("host1",)), None, "host1\n8 GPU\n4 NIC"),
    ):
        _, texts, axes = drawn(whole, faults, host)
        boxes = {n: t.get_bbox_patch() for n, t in texts.items() if t.get_bbox_patch()}
        dashed = [n for n, box in boxes.items() if box.get_linestyle() == "--"]
        assert dashed == [name]
        assert FAILED in colours(axes)


@pytest.mark.parametrize("size", [2, 3, 5, 8])
@pytest.mark.parametrize("factor", [0.25, 0.5, 1.0])
def test_a_line_of_several_links_has_the_fraction_of_all(size, factor):
    whole = network(size, seed=size)
    links = whole.links
    assert left_of(links, whole) == 1
    total = sum(link.bandwidth for link in links)
    for link in links:
        name = " - ".join(link.ends)
        slow = left_of(links, whole.degraded(name, factor))
        assert slow == pytest.approx(1 - (1 - factor) * link.bandwidth / total)
        lost = left_of(links, whole.without(name))
        assert lost == pytest.approx(1 - link.bandwidth / total)
    assert left_of(links[:1], whole.without(" - ".join(links[0].ends))) == 0


def test_the_legend_marks_assumed_speeds(drawn):
    whole = Topology.load("dgx1v")
    for link in whole.links[:1]:
        whole.unlink(link)
        whole.link(*link.ends, link.kind)
    legend, _, _ = drawn(whole)
    (entry,) = [text for text in legend if "assumed" in text]
    assert entry.startswith(f"{link.kind.value} ")
    assert entry.count("GB/s (assumed)") == 1
    assert not any("?" in text for text in legend)


def test_a_fault_that_does_not_exist_is_refused(drawn):
    with pytest.raises(TopologyError, match="there is no device, host or link"):
        drawn(Topology.load("dgx1v"), Faults(("gpu9",)))
