"""GraphML and JSON graphs: directed edges, defaults, and cables of unknown speed."""

import json

import pytest

from collalgo import TopologyError
from collalgo.topology.readers import parse
from tests.support.smi_matrices import about

HOSTS = {name: {"metadata": {"kind": "host"}} for name in "ab"}


def graphml(*edges, directed=False, default="", keys=""):
    """Two hosts; an edge is "ab 10", or "ab" without a bandwidth."""
    lines = []
    for edge in edges:
        (a, b), _, speed = edge.partition(" ")
        data = f'<data key="b">{speed}</data>' if speed else ""
        lines.append(f'<edge source="{a}" target="{b}">{data}</edge>')
    word = "directed" if directed else "undirected"
    return parse(
        '<graphml><key id="b" for="edge" attr.name="bandwidth" attr.type="double">'
        f'{default}</key><key id="k" for="node" attr.name="kind" attr.type="string">'
        f'<default>host</default></key>{keys}<graph edgedefault="{word}">'
        f'<node id="a"/><node id="b"/>{"".join(lines)}</graph></graphml>',
        "x",
    )


def jgf(*edges, **graph):
    """The same in JSON; a mark of an edge, "ab! 10", makes it undirected."""
    entries = []
    for edge in edges:
        ends, _, speed = edge.partition(" ")
        entry = {"source": ends[0], "target": ends[1]}
        entry |= {"directed": False} if ends.endswith("!") else {}
        entries.append(entry | ({"metadata": {"bandwidth": speed}} if speed else {}))
    return parse(
        json.dumps({"graph": {"nodes": HOSTS, "edges": entries, **graph}}), "x"
    )


def the_link(machine):
    (link,) = machine.links
    return link.bandwidth, link.count


@pytest.mark.parametrize(
    ("edges", "found", "warning"),
    [
        (["ab 10"], (10, 1), ""),
        (["ab 10", "ba 10"], (10, 1), ""),
        (["ab 10", "ab 10", "ba 20"], (20, 2), ""),
        (["ab 10", "ba 5"], (5, 1), "10 GB/s in one direction, 5 GB/s back; 5 GB/s is"),
        (["ba 5", "ab 10"], (5, 1), "back; 5 GB/s is"),
        (["ab 10", "ba"], (10, 1), "an unknown speed back; 10 GB/s is"),
        (["ab", "ba"], (None, 1), ""),
        (["ab", "ba", "ab"], (None, 1), "2 cables in one direction, 1 cable back"),
    ],
)
def test_directed_edges_that_return_are_the_other_direction_of_a_link(
    edges, found, warning
):
    machines = (graphml(*edges, directed=True), jgf(*edges), jgf(*edges, directed=True))
    for machine in machines:
        assert the_link(machine) == found
        assert bool(about(machine, "direction")) == bool(warning)
        assert any(warning in text for text in [*machine.warnings, ""])


def test_undirected_edges_are_cables_of_their_own():
    for edges in (["ab 10", "ba 10"], ["ab 10", "ab 10"]):
        for machine in (graphml(*edges), jgf(*edges, directed=False)):
            assert the_link(machine) == (20, 2)
    assert the_link(jgf("ab! 10", "ba! 10")) == (20, 2)
    assert the_link(jgf("ab 10", "ba 10", "ab! 10")) == (20, 2)


def test_defaults_of_keys_are_the_values_of_nodes_and_edges_without_their_own():
    machine = graphml("ab", default="<default>7</default>")
    assert the_link(machine) == (7, 1)
    machine = graphml("ab 10", "ab", default="<default>7</default>")
    assert the_link(machine) == (17, 2)


@pytest.mark.parametrize("edges", [["ab 10", "ab"], ["ab", "ab 10"]])
def test_a_cable_of_unknown_speed_is_taken_for_as_fast_as_the_others(edges):
    for machine in (graphml(*edges), native(*edges)):
        (link,) = machine.links
        assert (link.bandwidth, link.count) == (20, 2)
        assert "as fast as" in link.assumed[0]
        assert about(machine, "as fast as")


def native(*edges):
    links = [
        f"{{ends: [a, b], kind: network, bandwidth: {edge[3:] or 'null'}}}"
        for edge in edges
    ]
    return parse(
        "collalgo: topology/1\ndevices: [{id: a, kind: host}, {id: b, kind: host}]\n"
        f"links: [{', '.join(links)}]",
        "x",
    )


def test_a_file_of_one_json_graph_is_read_and_of_several_refused():
    graph = {"nodes": HOSTS, "edges": [{"source": "a", "target": "b"}]}
    assert len(parse(json.dumps({"graphs": [graph]}), "x").links) == 1
    with pytest.raises(TopologyError, match="holds 2 graphs; keep one"):
        parse(json.dumps({"graphs": [graph, graph]}), "x")
