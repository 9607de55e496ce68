"""The JSON of ``amd-smi topology``: the same machine as its tables, or refused."""

import json
from itertools import product

import pytest

from collalgo.errors import TopologyError
from collalgo.topology.model import LinkKind
from collalgo.topology.readers import parse


def listed(size, **fields):
    """The JSON of GPUs that are all linked; ``fields`` of a pair are for it alone."""
    buses = [f"0000:{i:02x}:00.0" for i in range(size)]

    def link(a, b):
        found = {"gpu": b, "bdf": buses[b], "weight": 15, "link_status": "ENABLED",
                 "link_type": "XGMI", "num_hops": 1, "bandwidth": "50000-100000",
                 "coherent": "C", "atomics": "64,32", "bi_dir": "T"}  # fmt: skip
        if a == b:
            found |= {
                "weight": 0,
                "link_type": "SELF",
                "num_hops": 0,
                "bandwidth": "N/A",
            }
        return found | fields.get(f"of_{a}_{b}", {})

    return [
        {"gpu": a, "bdf": buses[a], "links": [link(a, b) for b in range(size)]}
        for a in range(size)
    ]


def tables(gpus):
    """The same as the tables of amd-smi."""
    buses = [gpu["bdf"] for gpu in gpus]
    text = ""
    for title, name in (
        ("ACCESS", "link_status"), ("WEIGHT", "weight"), ("HOPS", "num_hops"),
        ("LINK TYPE", "link_type"), ("NUMA BW", "bandwidth"),
    ):  # fmt: skip
        rows = [[gpu["bdf"], *(str(x[name]) for x in gpu["links"])] for gpu in gpus]
        text += f"{title} TABLE:\n" + "\n".join("  ".join(r) for r in [buses, *rows])
        text += "\n\n"
    return text


def same(first, second):
    def shown(topology):
        ids = [(d.id, d.attributes.get("busid")) for d in topology.devices()]
        links = sorted(
            (link.ends, link.kind, link.bandwidth) for link in topology.links
        )
        return ids, links, topology.warnings

    return shown(first) == shown(second)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 8])
def test_json_and_tables_are_one_machine(size):
    cells = (
        {}, {"link_type": "PCIE", "num_hops": 2}, {"link_type": "N/A"},
        {"link_status": "DISABLED"}, {"bandwidth": "N/A"},
        {"num_hops": 2, "weight": 30},
        {"link_type": "UNKNOWN", "bandwidth": "0-0"},
    )  # fmt: skip
    for there, back in product(cells, cells):
        gpus = listed(size, of_0_1=there, of_1_0=back)
        text = json.dumps(gpus)
        assert same(parse(text, "x"), parse(tables(gpus), "x")), (there, back)


def test_links_have_the_speed_of_all_their_cables():
    machine = parse(json.dumps(listed(8), indent=4), "x")
    assert len(machine.links) == 8 * 7 // 2
    assert {(x.kind, x.bandwidth) for x in machine.links} == {(LinkKind.XGMI, 100.0)}


def test_what_an_option_has_left_out_is_not_needed_but_the_type():
    def without(*names):
        gpus = listed(2)
        for link in (link for gpu in gpus for link in gpu["links"]):
            for name in names:
                del link[name]
        return json.dumps(gpus)

    found = parse(without("bandwidth", "weight", "link_status"), "x")
    assert found.links[0].bandwidth is None
    with pytest.raises(TopologyError, match=r"none of LINK TYPE \(link_type\)"):
        parse(without("link_type"), "x")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda gpus: gpus[0]["links"].pop(), "lists 2 of 3 GPUs"),
        (lambda gpus: gpus.pop(), "is not in both"),
        (lambda gpus: gpus[1].update(bdf=gpus[0]["bdf"]), "two GPUs have one bdf"),
        (lambda gpus: gpus[0].update(links=7), "links must be a list"),
        (lambda gpus: gpus[0].update(links=[7]), "must be a mapping"),
        (lambda gpus: gpus[0]["links"][1].pop("bdf"), "'bdf' is missing"),
        (lambda gpus: gpus[0].update(bdf={}), "is not a name"),
    ],
)
def test_json_that_contradicts_itself_is_refused(change, message):
    gpus = listed(3)
    change(gpus)
    with pytest.raises(TopologyError, match=message):
        parse(json.dumps(gpus), "x")
