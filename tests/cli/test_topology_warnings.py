"""Commands show the warnings of the topology that they read, once."""

import pytest
from click.testing import CliRunner

from collalgo import Topology
from collalgo.cli.loading import MOST_WARNINGS
from collalgo.cli.main import main

DEVICES = """collalgo: topology/1
name: two
devices:
  - {id: "host0/gpu[0-1]", kind: gpu, host: host0, sm: 70}
links:
"""
LINK = "  - {ends: [host0/gpu0, host0/gpu1], kind: nvlink, bandwidth: 5}\n"
BACK = "  - {ends: [host0/gpu1, host0/gpu0], kind: nvlink, bandwidth: 7}\n"
ITSELF = "  - {ends: [host0/gpu0, host0/gpu0], kind: nvlink, bandwidth: 7}\n"

COMMANDS = [
    "bound allgather",
    "plan -c broadcast --size 1M",
    "select allreduce 1M",
    "select allreduce 1M --without gpu0-gpu1",
    "simulate allreduce ring",
    "topo convert",
    "topo draw -o /dev/null",
    "topo show",
    "topo show --matrix",
    "topo validate",
    "verify ring -c allreduce --topology",
]


@pytest.fixture
def warned(tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(DEVICES + LINK + ITSELF)
    return str(path)


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_shows_a_warning_once(words, warned, tmp_path):
    cache = {"COLLALGO_CACHE": str(tmp_path / "cache")}  # where plan keeps its plans
    found = CliRunner().invoke(main, [*words.split(), warned], env=cache)
    said = " ".join(found.output.split())
    times = 2 if words == "topo convert" else 1  # the file that it writes has them, too
    assert said.count("a link to itself") == times, said


def test_many_warnings_are_counted(tmp_path):
    path = tmp_path / "many.yaml"
    devices = DEVICES.replace("[0-1]", f"[0-{MOST_WARNINGS + 4}]")
    links = "".join(ITSELF.replace("gpu0", f"gpu{i}") for i in range(MOST_WARNINGS + 5))
    path.write_text(devices + links + LINK)
    said = CliRunner().invoke(main, ["simulate", "allreduce", "ring", str(path)]).stderr
    assert said.count("a link to itself") == MOST_WARNINGS
    assert "more warnings; collalgo topo validate lists them" in said


@pytest.mark.parametrize(("links", "both"), [
    (LINK + BACK, "1 link listed in both orders of the ends, as nvlink host0/gpu0 - "
     "host0/gpu1: the cables add up to 12 GB/s"),
    (LINK + BACK.replace("bandwidth: 7", "bandwidth: null"), "add up to 10 GB/s"),
    (LINK + LINK, ""),
    (LINK + BACK.replace("nvlink", "pcie"), ""),
])  # fmt: skip
def test_both_orders_of_the_ends_get_a_warning(links, both, tmp_path):
    path = tmp_path / "two.yaml"
    path.write_text(DEVICES + links)
    said = " ".join(Topology.read(path).warnings)
    assert both in said
    assert ("both orders" in said) == bool(both)
