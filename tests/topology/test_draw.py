"""Pictures of topologies: the lines of links, the marks of faults, and the legend."""

import pytest

from collalgo import Topology, TopologyError
from collalgo.base import plotting
from collalgo.topology.draw import draw
from collalgo.topology.draw_layout import layout_of, size_of
from collalgo.topology.draw_lines import FAILED, SLOW, colours_of
from collalgo.topology.draw_sketch import left_of, sketch_of
from collalgo.topology.faults import WHOLE, Faults
from collalgo.topology.model import Kind, LinkKind
from tests.support.host_networks import network

pytest.importorskip("matplotlib")


@pytest.fixture
def drawn(monkeypatch):
    """A function that draws, and returns the legend and the texts of the picture."""
    found = []

    def save(figure, path, **_):
        (axes,) = figure.axes
        shown = axes.get_legend()
        legend = {
            text.get_text(): line
            for text, line in zip(
                *(shown.get_texts(), shown.get_lines()) if shown else ((), ()),
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
    """The colours of all lines of links."""
    from matplotlib.colors import to_hex

    (lines,) = axes.collections
    return [to_hex(colour) for colour in lines.get_color()]


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
    slow = {"2 x 25, 0.5 left", "15.75, 0.125 left"}
    assert slow | {"2 x 25 failed"} <= {*texts}
    assert "slow, with what is left" in legend
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


def test_lines_carry_the_number_of_cables_and_their_speed(drawn):
    legend, texts, axes = drawn(Topology.load("dgx_h100", hosts=4))
    assert {*texts} >= {"8 x 50", "host3\n8 GPU\n8 NIC"}
    labels = [text for text in axes.texts if text.get_text() == "8 x 50"]
    assert len(labels) == 4
    assert [*legend] == ["network 50 GB/s"]


def test_links_of_one_kind_and_several_speeds_have_several_colours(drawn):
    machine = Topology("two speeds", "a test")
    switch = machine.add("leaf", Kind.SWITCH)
    for i, speed in enumerate((50.0, 12.5, 12.5)):
        nic = machine.add(f"a/nic{i}", Kind.NIC, host="a")
        machine.link(nic, switch, LinkKind.NETWORK, speed)
    machine.link(machine.add("b", Kind.HOST), switch, LinkKind.NETWORK, 25.0)
    legend, texts, axes = drawn(machine)
    assert [*legend] == [f"network {speed} GB/s" for speed in ("50", "25", "12.5")]
    assert len({*colours(axes)}) == 3
    assert {"50", "25", "2 x 12.5"} <= {*texts}
    _, texts, _ = drawn(machine, host="a")
    boxes = [texts[name].get_bbox_patch() for name in texts if "nic" in name]
    assert len({box.get_facecolor() for box in boxes}) == 2
    assert "nic2\n12.5 GB/s" in texts


@pytest.mark.parametrize(("hosts", "boxes"), [(1, 30), (4, 5), (16, 26), (64, 17)])
def test_equal_hosts_of_a_large_cluster_share_a_box(hosts, boxes):
    cluster = Topology.load("dgx_h100", hosts=hosts)
    found = sketch_of(cluster, None, cluster)
    assert len(found.boxes) == boxes
    named = {id for box in found.boxes.values() for id in box.devices}
    assert named == {device.id for device in cluster.devices()}
    if hosts == 64:
        assert found.boxes["host0"].label == "host[0-7]\n8 x 8 GPU\n8 x 8 NIC"
        assert found.boxes["spine0"].label == "spine[0-7]\n8 switches"
        assert {line.label for line in found.lines} == {"64 x 50"}
        lost = cluster.without("host3")
        labels = [b.label for b in sketch_of(cluster, None, lost).boxes.values()]
        assert "host3\n8 GPU\n8 NIC" in labels


def overlaps(sketch, layout):
    """The pairs of boxes that cover each other."""
    areas = [(*layout.places[n], *size_of(box)) for n, box in sketch.boxes.items()]
    return [
        (a, b)
        for i, a in enumerate(areas)
        for b in areas[:i]
        if abs(a[0] - b[0]) < (a[2] + b[2]) / 2 and abs(a[1] - b[1]) < (a[3] + b[3]) / 2
    ]


@pytest.mark.parametrize(
    ("name", "parameters", "dims"),
    [
        ("torus", {"dims": (4, 4)}, (4, 4)),
        ("torus", {"dims": (3, 3, 3)}, (3, 3, 3)),
        ("dragonfly", {}, ()),
        ("fat_tree", {}, ()),
        ("fully_connected", {}, ()),
        ("gb200_nvl72", {}, ()),
        ("dgx1v", {}, ()),
        ("dgx_h100", {"hosts": 64}, ()),
    ],
)
def test_boxes_do_not_cover_each_other(name, parameters, dims):
    machine = Topology.load(name, **parameters)
    sketch = sketch_of(machine, None, machine)
    layout = layout_of(sketch, dims)
    assert not overlaps(sketch, layout)
    assert layout.places.keys() == sketch.boxes.keys()
    for (x, y), box in zip(layout.places.values(), sketch.boxes.values(), strict=True):
        width, height = size_of(box)
        assert width / 2 <= x <= layout.width - width / 2
        assert height / 2 <= y <= layout.height - height / 2


def test_a_torus_is_a_grid_whose_wraps_are_arcs():
    machine = Topology.load("torus", dims=(4, 3))
    sketch = sketch_of(machine, None, machine)
    layout = layout_of(sketch, (4, 3))
    columns = {round(x, 6) for x, _ in layout.places.values()}
    rows = {round(y, 6) for _, y in layout.places.values()}
    assert (len(columns), len(rows)) == (4, 3)
    bent = [line.ends for line, b in zip(sketch.lines, layout.bends, strict=True) if b]
    assert len(bent) == 4 + 3


def test_labels_do_not_cover_boxes_or_each_other(drawn):
    _, _, axes = drawn(Topology.load("dgx1v"))
    axes.figure.canvas.draw()
    areas = [text.get_window_extent() for text in axes.texts]
    assert len(areas) > 40
    assert not [1 for i, a in enumerate(areas) for b in areas[:i] if a.overlaps(b)]


def test_the_fastest_of_a_kind_has_the_strongest_colour():
    machine = Topology.load("mi250x")
    found = colours_of(sketch_of(machine, None, machine).lines)
    assert [s for kind, s in found if kind is LinkKind.XGMI] == ["50", "36"]
    assert found[LinkKind.XGMI, "50"] == "#b0202a"


def test_a_dollar_in_a_name_is_no_formula(drawn, tmp_path):
    machine = Topology("$x_$", "a test")
    machine.add("host0$a$", Kind.HOST)
    _, texts, _ = drawn(machine)
    assert {*texts} == {r"host0\$a\$", r"\$x_\$"}


def test_too_many_boxes_are_refused(drawn):
    with pytest.raises(TopologyError, match="1024 devices are too many"):
        drawn(Topology.load("torus", dims=(32, 32)))
