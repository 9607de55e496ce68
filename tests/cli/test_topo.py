"""``collalgo topo`` as a user types it."""

import json
from itertools import product

import pytest
from click.testing import CliRunner

from collalgo import Topology
from collalgo.cli.main import main
from collalgo.topology.readers import parse
from collalgo.topology.show import matrix
from tests.support.leisure import at_leisure
from tests.support.small_files import NCCL, SMI


def run(*words, code=0):
    result = CliRunner().invoke(main, ["topo", *map(str, words)])
    assert result.exit_code == code, result.output
    return result.output


def test_the_list_has_machines_and_fabrics():
    shown = run("list")
    assert "dgx_h100" in shown
    assert "fat_tree" in shown


def test_show_is_a_tree_with_speeds():
    shown = run("show", "dgx1v", "nvlink=20")
    assert "nvlink 2 x 20 GB/s to gpu[3-4]" in shown
    shown = run("show", "dgx_h100", "hosts=16", "rail=true")
    assert "host[0-15]" in shown
    assert "16 switches leaf[0-15]: 8 nic by network 50 GB/s" in shown


@pytest.mark.parametrize("name", ["dgx1v", "dgx_a100", "dgx_h100", "server8", "ndv4"])
def test_the_matrix_is_read_again_as_the_same_machine(name):
    machine = Topology.load(name)
    again = parse(matrix(machine), "matrix")
    cells = [line.split("\t")[1:-2] for line in matrix(machine).splitlines()[1:9]]
    assert cells == [line.split("\t")[1:-2] for line in matrix(again).splitlines()[1:9]]


def test_a_file_is_converted_validated_and_compared(tmp_path):
    first, second = tmp_path / "a.xml", tmp_path / "b.yaml"
    first.write_text(NCCL)
    run("convert", first, "-o", second)
    assert run("validate", first, second).split().count("6") == 4  # devices and links
    assert run("diff", first, second) == ""
    changed = tmp_path / "c.xml"
    changed.write_text(NCCL.replace('count="2"', 'count="1"'))
    assert "~ host0/gpu0 - host0/gpu1 (nvlink): 2 x, 50 GB/s" in run(
        "diff", first, changed, code=1
    )
    assert run("convert", "dgx1").startswith("collalgo: topology/1")


def test_a_wrong_file_is_an_error_without_a_traceback(tmp_path):
    wrong, right = tmp_path / "wrong.txt", tmp_path / "right.txt"
    wrong.write_text(SMI.replace("PXB", "ABC"))
    right.write_text(SMI)
    shown = run("validate", wrong, right, code=1)
    assert f"{wrong}  " in shown
    assert "not read; the error is below" in shown
    assert "Error: wrong.txt: GPU1 - mlx5_0: 'ABC' is not a path type" in shown
    assert "no machine or fabric 'nothing'" in run("show", "nothing", code=1)
    assert "must be of the form name=value" in run("show", "dgx1", "hosts", code=2)


DRAWN = ["dgx1v", "dgx_h100", "dgx_h100 hosts=16", "fat_tree", "torus"]


@pytest.mark.parametrize(
    ("what", "form"),
    at_leisure(
        product(DRAWN, ["svg", "png"]), {*product(DRAWN, ["svg"]), ("torus", "png")}
    ),
)
def test_pictures_are_drawn(tmp_path, form, what):
    path = tmp_path / f"picture.{form}"
    run("draw", *what.split(), "-o", path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG" if form == "png" else b"<?xml")
    assert len(content) > 5000


def test_the_machine_at_hand_is_shown():
    assert "cpu0" in run("detect")
    assert "cpu0" in run("show", "here")


LEAVES = """collalgo: topology/1
devices:
  - {id: "h[0-2]/nic0", kind: nic, host: "h[0-2]"}
  - {id: "h[0-2]/gpu0", kind: gpu, host: "h[0-2]"}
  - {id: "leaf[0-1]", kind: switch}
links:
  - {ends: ["h[0-2]/nic0", "h[0-2]/gpu0"], kind: pcie, bandwidth: 31.5}
  - {ends: ["h[0-1]/nic0", leaf0], kind: network, bandwidth: 12.5}
  - {ends: [h2/nic0, leaf1], kind: network, bandwidth: 12.5}
"""


def test_folded_hosts_are_shown_with_the_leaf_of_each(tmp_path):
    path = tmp_path / "leaves.yaml"
    path.write_text(LEAVES)
    shown = run("show", path)
    assert "h[0-2]" in shown
    assert "h[0-1]: network 12.5 GB/s to leaf0" in shown
    assert "h2: network 12.5 GB/s to leaf1" in shown
    path.write_text(LEAVES.replace("h2/nic0, leaf1", "h2/nic0, leaf0"))
    assert "h[0-1]: " not in run("show", path)


@pytest.mark.parametrize("words", [["draw", "-o", "x.svg"], ["show", "--matrix"]])
def test_a_host_that_does_not_exist_is_refused(tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "leaves.yaml"
    path.write_text(LEAVES)
    shown = run(words[0], path, *words[1:], "--host", "h7", code=1)
    assert "there is no host 'h7'; the hosts are h[0-2]" in shown


def test_the_cores_of_this_machine_are_places_for_ranks():
    result = CliRunner().invoke(main, ["bound", "allreduce", "here"])
    assert "has no GPUs" not in result.output


@pytest.mark.parametrize("name", ["[/b]", "[red]x", "a[mpi]"])
def test_brackets_of_a_file_are_printed_as_they_are(name, tmp_path):
    path = tmp_path / "machine.json"
    device = {"id": "h/gpu0", "kind": "gpu", "host": "h", "name": name}
    document = {"collalgo": "topology/1", "name": name, "devices": [device]}
    path.write_text(json.dumps(document))
    assert run("show", path).count(name) > 1
