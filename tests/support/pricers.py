"""Prices of machines that do not exist."""

from collalgo import Topology
from collalgo.cost.host_profile import HostProfile
from collalgo.selection.on_host import HostPricer
from collalgo.selection.on_topology import TopologyPricer

PROFILE = HostProfile(
    1.5e-7, 3e-6, 1e-7, 1e-10, 1.2e-10, 2, copy_far=2e-10, reduce_far=3e-10
)


def host(size, cores=2):
    return HostPricer(size, PROFILE._replace(cores=cores))


def on_hosts(name, **parameters):
    return TopologyPricer(Topology.load(name, **parameters))
