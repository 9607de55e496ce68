"""Misspelt words of formats whose words are known."""

import json

import pytest

from collalgo import TopologyError
from collalgo.topology.readers import parse
from tests.support.small_files import SMALL

#: For a format what is replaced in its small file, and what is said of it.
MISSPELT = [
    ("topograph", "annotations:", "annotation:", "a block has the key 'annotation'"),
    ("topograph", "blocks:", "x: 1\nblocks:", "the model has the key 'x'"),
    ("topograph", "{switches: [leaf]}", "{switches: [leaf], x: 1}", "a switch has the"),
    ("simgrid", "<cluster ", '<cluster topologyy="TORUS" ', "is it topology?"),
    ("simgrid", "</zone>", '<clusterr id="d"/></zone>', "element 'clusterr'"),
    ("htsim", "Radix_Up ", "Radix_Upp ", "a tier has the key 'radix_upp'"),
    ("htsim", "Podsize", "Podsizes", "the header has the key 'podsizes'"),
    ("taccl", "nics_per_node", "nics_per_nodes", "is it nics_per_node?"),
    ("taccl", '"name"', '"node_invbw_list": [1], "name"', "key 'node_invbw_list'"),
    ("slurm_conf", "SwitchName=s2 ", "BlockSizess=4 SwitchName=s2 ", "line 3 has the"),
    ("slurm_yaml", "      - name: pod", "      - name: pod\n        x: 1", "key 'x'"),
    ("slurm_yaml", "  torus3d:", "  cluster_defaults: true\n  torus3d:", "_default?"),
    ("astra_sim", "bandwidth:", "latencyy: [ 1, 2 ]\nbandwidth:", "key 'latencyy'"),
    ("nccl_xml", "<net ", "<nett/><net ", "<nic> has the element 'nett'"),
    ("nccl_xml", ' guid="', ' guidd="', "<net> has the attribute 'guidd'"),
    ("nccl_xml", '"0x020700"', '"00x020000"', "the class '00x020000' of 0000:13:00.0"),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), MISSPELT)
def test_a_misspelt_word_is_a_warning(name, old, new, said):
    text = SMALL[name][0]
    assert old in text
    found = [w for w in parse(text.replace(old, new), "x").warnings if said in w]
    assert len(found) == 1
    assert not any(said in warning for warning in parse(text, "x").warnings)


@pytest.mark.parametrize(
    ("block", "why"),
    [
        ("{switch: leaf, noodes: ['n[1-3]']}", "line 2: a block: 'nodes' is missing"),
        ("{switch: leaf, switches: [n1]}", "line 2: a block: 'nodes' is missing"),
        ("{switch: leaf, nodes: }", "line 2: a block: 'nodes' is missing"),
        ("{switch: leaf, nodes: []}", "line 2: a block: nodes is empty; the file may"),
        (
            "{switch: leaf, nodes: n1}",
            "line 2: a block: nodes must be a list, not 'n1'",
        ),
        ("n1", "a block must be a mapping, not 'n1'"),
    ],
)
def test_a_block_without_nodes_is_refused_with_its_line(block, why):
    with pytest.raises(TopologyError, match=why):
        parse(f"switches: {{core: {{switches: [leaf]}}}}\nblocks: [{block}]", "x")


def test_a_table_whose_costs_are_misspelt_is_refused():
    text = SMALL["taccl"][0].replace("node_invbws_list", "node_invbw_list")
    assert json.loads(text)
    with pytest.raises(TopologyError, match="0 link costs for 4 GPUs"):
        parse(text, "x")


@pytest.mark.parametrize("word", ["x" * 10_000, "a\u202eb", "\x1b[31m"])
def test_a_warning_quotes_a_word_briefly(word):
    text = json.dumps(json.loads(SMALL["taccl"][0]) | {word: 1})
    (found,) = [w for w in parse(text, "x").warnings if "which is unknown" in w]
    assert len(found) < 200
    assert found.isprintable()
