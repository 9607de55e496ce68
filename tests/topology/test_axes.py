"""The dimensions of the grid of ranks."""

import pytest

from collalgo import Topology
from collalgo.topology.axes import axes_of
from collalgo.topology.places import ranks_of
from tests.support.clusters import FILES


def axes(topology):
    return axes_of(topology, ranks_of(topology))


@pytest.mark.parametrize("kind", ["torus", "mesh"])
@pytest.mark.parametrize("dims", [(3, 5), (5, 3), (2, 8), (2, 3, 4), (2, 2, 2, 2)])
def test_grids_of_hosts_are_known_by_their_links(kind, dims):
    assert axes(Topology.load(kind, dims=dims)) == dims


def test_chips_are_a_grid_though_hosts_have_four_of_them():
    assert axes(Topology.load("tpu", dims=(4, 4, 2))) == (4, 4, 2)


def test_ranks_of_a_host_come_before_the_grid_of_hosts():
    torus = Topology.load("torus", dims=(3, 4))
    for host in torus.hosts:
        for i in range(2):
            torus.add(f"{host}/core{i}", "core", host=host)
    assert axes(torus) == (2, 3, 4)
    uneven = ranks_of(torus)[:-1]
    assert axes_of(torus, uneven) == ()
    mixed = ranks_of(torus)[::-2] + ranks_of(torus)[::2]
    assert axes_of(torus, mixed) == ()


def test_a_line_a_ring_and_what_switches_join_are_no_grid():
    for machine in (
        Topology.load("torus", dims=(7,)),
        Topology.load("dgx_h100", hosts=4),
        Topology.read(FILES / "ring.yaml"),
        Topology.read(FILES / "star.yaml"),
    ):
        assert axes(machine) == ()


def test_a_grid_that_lacks_a_link_is_none():
    whole = Topology.load("torus", dims=(3, 4))
    lacking = Topology("lacking")
    for host in whole.hosts:
        lacking.add(host, "host")
    for link in whole.links[1:]:
        lacking.link(*link.ends, link.kind, link.bandwidth)
    assert axes(lacking) == ()


def test_the_cluster_that_is_a_torus_is_one():
    assert axes(Topology.read(FILES / "torus.yaml")) == (3, 3)
