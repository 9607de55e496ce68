"""The choice of algorithms on topologies."""

from itertools import pairwise

import pytest
from click.testing import CliRunner

from collalgo import ALGORITHMS, Topology, algorithm, select, send, simulate
from collalgo.cli import main
from collalgo.collective import COLLECTIVES
from collalgo.selection.on_topology import Prospect
from collalgo.topology.orders import ring_order

pytestmark = pytest.mark.parallel

GIB = 1 << 30


@pytest.mark.parametrize("nbytes", [1 << 10, 1 << 20, GIB])
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_choice_is_the_cheapest_and_no_better_than_the_bound(collective, nbytes):
    machine = Topology.load("dgx1v")
    chosen = select(collective, nbytes, topology=machine)
    able = [c for c in chosen.candidates if c.obstacle is None]
    assert chosen.seconds == min(c.seconds for c in able)
    if chosen.bound_seconds:
        assert chosen.seconds >= chosen.bound_seconds
    again = simulate(
        able[0].row.schedule, machine, nbytes, collective=collective,
        order=ring_order(machine) if able[0].order else None,
    )  # fmt: skip
    assert again.seconds == pytest.approx(chosen.seconds)


def price_of(chosen, name):
    named = [c for c in chosen.candidates if c.algorithm.partition("(")[0] == name]
    return min(c.seconds for c in named)


@pytest.mark.parametrize("nics", [1, 2, 4])
def test_between_hosts_what_keeps_to_hosts_beats_a_flat_ring(nics):
    cluster = Topology.load("dgx1v", hosts=4, nics=nics)
    chosen = select("allreduce", 1 << 28, topology=cluster)
    assert chosen.seconds < price_of(chosen, "ring")
    assert price_of(chosen, "torus_2d") < price_of(chosen, "ring")


def test_small_messages_take_few_steps_and_large_ones_little_traffic():
    cluster = Topology.load("dgx1v", hosts=4, nics=4)
    small = select("allreduce", 1 << 10, topology=cluster)
    assert price_of(small, "recursive_doubling") < price_of(small, "ring") / 5
    large = select("allreduce", GIB, topology=cluster)
    assert price_of(large, "ring") < price_of(large, "recursive_doubling")


def test_rings_along_all_nvlinks_reach_the_bound():
    chosen = select("allreduce", GIB, topology=Topology.load("dgx1v"))
    assert chosen.algorithm.startswith("multi_ring(cycles=")
    assert len(chosen.parameters["cycles"]) == 6
    idle = (6 * 25 + 15.75) / (6 * 25)  # what PCIe could carry beside them
    assert chosen.ratio == pytest.approx(idle, rel=0.01)
    assert "multi_ring(cycles=6 of 8)" in chosen.explain()
    assert price_of(chosen, "ring") == pytest.approx(3 * chosen.seconds, rel=0.02)


def test_reproducible_means_in_the_order_of_the_ranks():
    machine = Topology.load("dgx_a100")
    chosen = select("allreduce", 1 << 20, topology=machine, reproducible=True)
    assert chosen.row.serial


def test_a_choice_needs_ranks_or_a_topology():
    with pytest.raises(ValueError, match="the number of ranks, or a topology"):
        select("allreduce", 8)
    result = CliRunner().invoke(main, ["select", "allreduce", "8"])
    assert result.exit_code == 2


def test_the_command_chooses_on_a_topology():
    words = ["select", "allreduce", "1G", "--topology", "dgx1v", "hosts=2", "nics=1"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert "on 16 ranks" in result.output
    assert "hierarchical(hosts=(8, 8))" in result.output


@pytest.mark.parametrize("kind", ["nvlink", "pcie", "nic"])
@pytest.mark.parametrize("collective", ["allreduce", "broadcast", "allgather"])
def test_more_bandwidth_never_makes_the_choice_slower(collective, kind):
    seconds = []
    for speed in (8.0, 12.0, 30.0, 100.0):
        machine = Topology.load("dgx1v", hosts=2, nics=4, **{kind: speed})
        prospect = Prospect(machine)
        seconds.append(
            [
                select(collective, nbytes, topology=prospect).seconds
                for nbytes in (1 << 10, 1 << 20, GIB)
            ]
        )
    for slow, fast in pairwise(seconds):
        assert all(b <= a * (1 + 1e-9) for a, b in zip(slow, fast, strict=True))


def test_a_look_up_finds_what_is_chosen():
    prospect = Prospect(Topology.load("dgx1v", hosts=2, nics=2))
    known = prospect.choices("allreduce")
    assert len(known.breaks) > 2
    for nbytes in (8, 1 << 12, 1 << 17, 1 << 22, GIB):
        chosen = select("allreduce", nbytes, topology=prospect)
        assert known.at(nbytes).price.seconds(nbytes) == pytest.approx(chosen.seconds)


def test_what_a_user_adds_is_proved_before_it_is_priced():
    @algorithm("broadcast", "hasty", obstacle=lambda n: "is shy" if n == 3 else None)
    def hasty(group):
        yield send(group.right, group.whole)

    try:
        chosen = select("broadcast", 8, topology=Topology.load("dgx1v"))
        (found,) = [c for c in chosen.candidates if c.algorithm == "hasty"]
        assert found.obstacle.startswith("is wrong: ")
        chosen = select("broadcast", 8, size=3)
        (found,) = [c for c in chosen.candidates if c.algorithm == "hasty"]
        assert found.obstacle == "is shy"
    finally:
        ALGORITHMS[:] = [row for row in ALGORITHMS if row.name != "hasty"]
