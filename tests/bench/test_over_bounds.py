"""The machines whose prices are compared with bounds, and the comparison of one."""

import os
import subprocess
import sys

import pytest
from click.testing import CliRunner
from collalgo.bench.over_bounds import machines
from collalgo.bench.over_bounds.__main__ import main
from collalgo.bench.over_bounds.machines import (
    NamedMachine,
    broken_machine,
    random_machine,
)
from collalgo.bench.over_bounds.measuring import COMPARED, Cell, figures_of

from collalgo import Topology
from collalgo.base.json_files import read_json
from collalgo.topology.places import ranks_of


@pytest.mark.parametrize("seed", range(12))
def test_a_random_machine_is_the_same_each_time_and_broken_ones_lack_a_link(seed):
    machine = random_machine(seed)
    again = random_machine(seed)
    assert [*machine.links] == [*again.links]
    broken = broken_machine(seed)
    assert len(machine.links) - len(broken.links) in (0, 1)
    assert ranks_of(broken) == ranks_of(machine)


def test_a_random_machine_does_not_depend_on_the_order_of_sets():
    program = (
        "from collalgo.bench.over_bounds.machines import random_machine;"
        "print([[*one.ends, one.bandwidth] for one in random_machine(19).links])"
    )
    found = {
        subprocess.check_output(
            [sys.executable, "-c", program], env=os.environ | {"PYTHONHASHSEED": seed}
        )
        for seed in "01"
    }
    assert len(found) == 1


def test_subsets_have_devices_of_each_host():
    for one in [*machines.subsets()][:10]:
        topology = one.load()
        ranks = ranks_of(topology)
        assert len(ranks) >= 2
        assert {topology.device(rank).host for rank in ranks} == {*topology.hosts}


def test_the_cells_of_a_machine_are_above_their_bounds():
    found = figures_of(NamedMachine("dgx1v", lambda: Topology.load("dgx1v")))
    assert found["size"] == 8
    assert [*found["cells"]] == [*COMPARED]
    for row in found["cells"].values():
        cell = Cell(*row)
        assert 1 - 1e-4 < cell.ratio_in_rounds <= cell.ratio < 1.1
        assert 0 < cell.latency < cell.seconds


def test_machines_without_prices_give_the_reason():
    def apart():
        machine = random_machine(0)
        return machine.without(*[one.id for one in machine.devices("switch")])

    assert "why" in figures_of(NamedMachine("apart", apart))


def test_known_machines_are_left_out(tmp_path, monkeypatch):
    few = [NamedMachine("one", lambda: Topology.load("fully_connected", hosts=3))]
    monkeypatch.setitem(machines.GROUPS, "fabrics", lambda: iter(few))
    words = ["fabrics", "--output", str(tmp_path)]
    assert CliRunner().invoke(main, words).exit_code == 0
    first = read_json(tmp_path / "fabrics.json")
    few[:] = [NamedMachine("one", None), NamedMachine("two", few[0].load)]
    assert CliRunner().invoke(main, words).exit_code == 0
    second = read_json(tmp_path / "fabrics.json")["machines"]
    assert second["one"] == first["machines"]["one"]
    assert [*second] == ["one", "two"]
