"""Steps in which ranks change their peers, which cost more where figures say so."""

import pytest

from collalgo import Topology, select
from collalgo.algorithms import find
from collalgo.cost.figures import Figures
from collalgo.cost.site import Site
from collalgo.machine import Machine
from collalgo.selection.on_topology import Prospect
from tests.test_cluster import FILES

MACHINE = Machine(2e-7, 2e-6, 1e-7, 1e-10, 1e-10, cores=2)


@pytest.fixture
def star():
    return Topology.read(FILES / "star.yaml")


def per_byte(topology, name, turning):
    site = Site(topology, (), Figures(turning=turning))
    folded = site.fold(find("allreduce", name, site.size).schedule)
    return site.rounds(folded).line.per_byte


def test_a_ring_keeps_its_peers_and_halving_does_not(star):
    assert per_byte(star, "ring", 0.5) == per_byte(star, "ring", 0.0)
    plain, turning = (per_byte(star, "halving_doubling", t) for t in (0.0, 0.5))
    assert plain < turning <= 1.5 * plain


def test_of_equals_what_keeps_its_peers_is_chosen(star):
    chosen = select("allreduce", 1 << 24, topology=Prospect(star))
    assert chosen.seconds < 1.03 * chosen.bound_seconds
    prospect = Prospect(star, Figures.of_machine(MACHINE))
    steady = select("allreduce", 1 << 24, topology=prospect)
    assert steady.row.plain in ("torus_2d", "hierarchical")
    assert steady.seconds < 1.06 * steady.bound_seconds
