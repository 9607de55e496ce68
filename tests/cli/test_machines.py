"""Every machine by name works in every command, alone and with others of its kind."""

import json
from itertools import product

import pytest
from click.testing import CliRunner

from collalgo.cli.main import main
from collalgo.topology.presets import FABRICS, machines
from tests.support.leisure import at_leisure

#: The commands on a machine, with a place for it.
COMMANDS = {
    "topo show": ("topo", "show", "{}"),
    "topo convert": ("topo", "convert", "{}"),
    "bound": ("bound", "allreduce", "{}", "--size", "8,1G"),
    "bound of a root": ("bound", "scatter", "{}"),
    "simulate": ("simulate", "allreduce", "halving_doubling", "{}"),
    "simulate in order": ("simulate", "allgather", "ring", "{}", "--order", "ring"),
    "select": ("select", "allreduce", "--size", "8,1G", "--topology", "{}"),
}

#: Two cores of a CPU without GPUs, as topo detect writes them.
TWO_CORES = """
collalgo: topology/1
name: two
devices:
  - {id: h/cpu0, kind: cpu, host: h}
  - {id: "h/core[0-1]", kind: core, host: h}
links:
  - {ends: ["h/core[0-1]", h/cpu0], kind: smp, bandwidth: null}
"""

#: A rack of 72 GPUs takes minutes in groups of four.
LARGE = "gb200_nvl72"


def run(words, machine, *parameters):
    """What a command prints of a machine."""
    filled = [word.format(machine) for word in words]
    found = CliRunner().invoke(main, [*filled, *parameters])
    assert found.exit_code == 0, (filled, found.output[-500:], found.exception)
    return found.output


NAMES = [name for name in machines() if name != LARGE]

#: Each machine alone or with others; a choice among all algorithms for several hosts
#: takes seconds, and is quick for two machines.
QUICK = {
    (name, hosts, command)
    for command in COMMANDS
    for names, hosts in ((NAMES[::2], 1), (NAMES[1::2], 2))
    for name in names
    if command != "select" or hosts == 1 or name in names[:2]
}


@pytest.mark.parametrize(
    ("name", "hosts", "command"), at_leisure(product(NAMES, [1, 2, 4], COMMANDS), QUICK)
)
def test_every_machine_works_in_every_command(name, hosts, command):
    output = run(COMMANDS[command], name, f"hosts={hosts}")
    assert "assumed" not in output
    assert "below the bound" not in output


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("hosts", [1, 2, 4])
def test_a_rack_works_in_every_command(hosts, command):
    assert run(COMMANDS[command], LARGE, f"hosts={hosts}")


#: Fabrics with grids and groups, where a choice takes seconds.
COSTLY = {("tpu", "select"), ("tiled_torus", "select"), ("dragonfly", "select")}


@pytest.mark.parametrize(
    ("name", "command"),
    at_leisure(product(FABRICS, COMMANDS), {*product(FABRICS, COMMANDS)} - COSTLY),
)
def test_every_fabric_works_in_every_command(name, command):
    assert run(COMMANDS[command], name)


@pytest.mark.parametrize(
    ("hosts", "ranks", "each"),
    at_leisure(
        [
            (hosts, *each)
            for hosts in (1, 2, 4)
            for each in (("cores", 32), ("sockets", 2))
        ],
        {(1, "cores", 32), (2, "sockets", 2)},
    ),
)
def test_ranks_of_a_server_are_on_cores_or_sockets(hosts, ranks, each):
    words = (*COMMANDS["select"][:2], "1M", "--topology", "{}", "--json")
    found = json.loads(run(words, "cpu2s", f"hosts={hosts}", f"ranks={ranks}"))
    assert found["size"] == hosts * each
    for command in COMMANDS.values():
        assert run(command, "cpu2s", f"hosts={hosts}", f"ranks={ranks}")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("dgx1v", "ranks=cores"), "but it has 2 CPUs and 8 GPUs"),
        (("cpu2s", "ranks=tiles"), "ranks=tiles: ranks are on one of cores, sockets"),
        (("cpu2s", "ranks=3"), "ranks=3: ranks are on one of cores, sockets"),
        (("cpu2s", "hosts=1.5"), "hosts=1.5 must be an integer"),
        (("cpu2s", "hosts=0"), "hosts=0 must be at least 1"),
        (
            ("cpu2s", "hosts=2", "nics=0"),
            "host0 has none; write the machine by topo convert, add its NICs",
        ),
        (("cpu2s", "rail=4"), "rail=4 must be true or false"),
    ],
)
def test_what_a_machine_cannot_be_is_refused(words, reason):
    found = CliRunner().invoke(main, ["bound", "allreduce", *words])
    assert found.exit_code
    assert reason in found.output


def test_an_assumed_speed_has_the_range_of_its_name_only(tmp_path):
    """That of two cores has one speed, so the bound has no range."""
    file = tmp_path / "two.yaml"
    file.write_text(TWO_CORES)
    told = run(("bound", "allreduce", "{}", "--size", "1M"), file)
    assert "12.8 GB/s as core" in told
    assert "(1 of 2 ranks)" in told
    assert "all but" not in told
    assert "with smp of" not in told


def test_a_cheaper_order_of_the_ranks_is_named():
    words = ("simulate", "allreduce", "torus_2d", "{}", "--size", "64M")
    found = run(words, "dgx1v", "hosts=4")
    assert "With --order ring the allreduce of 64 MiB takes" in found
    assert "--order" not in run((*words, "--order", "ring"), "dgx1v", "hosts=4")
    assert "--order" not in run(words, "dgx1v")
