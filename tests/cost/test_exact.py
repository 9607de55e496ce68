"""Prices in exact rationals, which prove that schedules are optimal."""

from fractions import Fraction

import pytest
from click.testing import CliRunner

from collalgo import ALGORITHMS, Topology
from collalgo.cli.main import main
from collalgo.cost.bounds import BOUNDED
from collalgo.cost.exact import exact
from collalgo.cost.job import Job
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from tests.support.leisure import at_leisure

MACHINES = {
    "dgx1v": {},
    "mi250x": {},
    "torus": {"dims": (3, 3)},
    "fat_tree": {"k": 2},
}

#: Nothing but the bytes on the links.
BYTES = LinkModel(message=0.0, reduction=0.0, turning=0.0, efficiency={})


@pytest.mark.parametrize("name", at_leisure(MACHINES, {"mi250x", "fat_tree"}))
def test_no_schedule_is_below_the_bound_and_floats_agree(name):
    machine = Topology.load(name, **MACHINES[name])
    placement = Placement(machine, link_model=BYTES)
    for row in ALGORITHMS:
        if row.collective not in BOUNDED or row.obstacle(placement.size) is not None:
            continue
        found = exact(row.name, machine, collective=row.collective)
        assert found.ratio is None or found.ratio >= 1, row.name
        job = Job.of(row.name, row.collective, placement, 1e9, 0)
        line = placement.rounds(placement.fold(job.schedule, job.dims)).line
        told = line.per_byte * job.whole
        assert float(found.per_byte) == pytest.approx(told, rel=1e-9), row.name


@pytest.mark.parametrize("n", [3, 5, 6, 7, 12])
def test_rings_are_proved_optimal(n):
    machine = Topology.load("torus", dims=(n,), bandwidth=10.0)
    share = Fraction(n - 1, 10 * n)
    one_way = exact("ring", machine, collective="allgather")
    assert one_way.steps == (Fraction(1, 10 * n),) * (n - 1)
    assert one_way.per_byte == share
    assert one_way.ratio == 2  # the links in the other direction are idle
    both = exact("bidirectional_ring", machine, collective="allreduce")
    assert both.per_byte == share
    assert both.ratio == 1


def test_the_command_prints_the_exact_ratio():
    words = ["simulate", "allreduce", "bidirectional_ring", "torus", "dims=7"]
    told = CliRunner().invoke(main, [*words, "--exact"])
    assert told.exit_code == 0, told.output
    assert "exactly 12/175 (0.06857) s for each GB, by the bytes" in told.output
    assert told.output.strip().endswith(": 1 times the bound")
    told = CliRunner().invoke(main, ["simulate", "allreduce", "ring", "dgx_h100",
                                     "hosts=4096", "--exact"])  # fmt: skip
    assert told.exit_code == 2
    assert "leave out --order, --timeline, --exact" in " ".join(told.output.split())
