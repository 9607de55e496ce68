"""The parameters that algorithms take from a machine where a caller gives none."""

import pytest

from collalgo import ALGORITHMS, Topology, simulate
from collalgo.cost.machine_parameters import fitted
from collalgo.cost.placement import Placement
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.selection.on_topology import TopologyPricer

MIB = 1 << 20
SERVERS = Topology.load("dgx1v_8nics", hosts=6, nics=1)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("torus_2d", "dims=(8, 6)"),
        ("ring_2d", "dims=(8, 6)"),
        ("ring_3d", "dims=(8, 2, 3)"),
        ("bcube", "dims=(8, 6)"),
        ("blueconnect", "dims=(8, 2, 3)"),
        ("hierarchical", "hosts=(8, 8, 8, 8, 8, 8)"),
        ("two_level", "hosts=(8, 8, 8, 8, 8, 8)"),
    ],
)
def test_a_name_without_parameters_follows_the_hosts(name, parameters):
    by_name = simulate(name, SERVERS, MIB, collective="allreduce")
    given = simulate(f"{name}({parameters})", SERVERS, MIB, collective="allreduce")
    if parameters != "dims=(8, 2, 3)":
        assert by_name.algorithm == f"{name}({parameters})"
    assert by_name.seconds == given.seconds


def test_what_does_not_follow_the_machine_is_told():
    found = simulate("hierarchical", SERVERS, MIB, collective="allreduce")
    assert found.defaults == ()
    crossing = [d for gpu in range(8) for d in SERVERS_DEVICES[gpu::8]]
    found = simulate(
        "hierarchical", SERVERS, MIB, collective="allreduce", order=crossing
    )
    assert found.defaults == ("hosts",)
    assert "not fitted to the machine: hosts (default)" in str(found)


def test_what_is_given_is_kept():
    found = simulate("torus_2d(dims=(16, 3))", SERVERS, MIB, collective="allreduce")
    assert found.algorithm == "torus_2d(dims=(16, 3))"


@pytest.mark.parametrize("dims", [(3, 5), (2, 8), (4, 4)])
def test_a_grid_follows_the_links(dims):
    torus = Topology.load("torus", dims=dims)
    for name in ("torus_2d", "mesh_2d", "torus_2d_all_ways"):
        given = simulate(f"{name}(dims={dims})", torus, MIB, collective="allreduce")
        found = simulate(name, torus, MIB, collective="allreduce")
        assert found.seconds == given.seconds


def test_several_rings_follow_the_cycles_of_nvlinks():
    server = Topology.load("dgx1v")
    found = simulate("multi_ring", server, 1 << 30, collective="allreduce")
    assert "cycles=" in found.algorithm
    assert "multi_ring(cycles=" in str(found)
    ring = simulate("ring", server, 1 << 30, collective="allreduce")
    assert found.seconds < ring.seconds / 2


def test_hosts_of_several_sizes_make_a_hierarchy_and_no_grid():
    small, large = Topology.load("dgx1v"), Topology.load("dgx2")
    assert fitted(row_of("torus_2d"), Placement(small)).parameters == ()
    both = Placement(SERVERS, SERVERS_DEVICES[:12])
    assert dict(fitted(row_of("hierarchical"), both).parameters) == {"hosts": (8, 4)}
    assert fitted(row_of("torus_2d"), both).parameters == ()
    assert fitted(row_of("hierarchical"), Placement(large)).parameters == ()


def test_ranks_that_go_from_host_to_host_and_back_keep_the_defaults():
    placement = Placement(
        SERVERS, [device for gpu in range(8) for device in SERVERS_DEVICES[gpu::8]]
    )
    for name in ("torus_2d", "hierarchical", "multi_ring"):
        assert fitted(row_of(name), placement) == row_of(name)


@pytest.mark.parametrize("hosts", [1, 2, 16])
def test_what_a_name_gets_is_what_selection_tries(hosts):
    cluster = UniformCluster.load("dgx_a100", hosts=hosts)
    pricer = TopologyPricer(cluster)
    for row in ALGORITHMS:
        own = fitted(row, pricer.placement)
        if row.obstacle(8 * hosts) is None and own is not row:
            tried = [dict(one.row.parameters) for one in pricer.candidates([row])]
            mine = dict(own.parameters).items() - {("segments", 4)}
            assert any(mine <= one.items() for one in tried) or not tried, own.name


SERVERS_DEVICES = Placement(SERVERS).devices


def row_of(name):
    return next(r for r in ALGORITHMS if (r.collective, r.name) == ("allreduce", name))
