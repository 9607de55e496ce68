"""The algorithms that are offered, and those that run only if they are named."""

from collalgo import Topology, select
from collalgo.selection.on_topology import TopologyPricer

GIB = 1 << 30


def test_an_algorithm_for_a_late_rank_runs_only_if_it_is_named():
    pricer = TopologyPricer(Topology.load("dgx1v"))
    chosen = select("allreduce", GIB, topology=pricer)
    obstacles = {c.algorithm: c.obstacle for c in chosen.candidates if c.obstacle}
    assert "late rank: select --topology" in obstacles["late_rank"]
    assert "late_rank" not in {one.row.base_name for one in chosen.able}
    on_host = select("allreduce", GIB, size=4)
    assert "late_rank" not in {one.row.base_name for one in on_host.able}
    named = select("allreduce", GIB, topology=pricer, algorithm="late_rank(late=2)")
    assert named.algorithm == "late_rank(late=2)"
    assert named.seconds > chosen.seconds
