"""The prices of ranks on hosts of a job, one object for all their groups."""

from collections.abc import Sequence
from functools import lru_cache

from collalgo.base.cache import computing
from collalgo.cost.host_profile import HostProfile
from collalgo.cost.link_model import LinkModel
from collalgo.selection.on_topology import TopologyPricer
from collalgo.topology.model import Topology


@lru_cache(maxsize=64)
def _placed(
    topology: Topology,
    profile: HostProfile,
    devices: tuple[str, ...],
    shared_cores: int,
) -> TopologyPricer:
    model = LinkModel.of_host(profile, shared_cores)
    return TopologyPricer(topology, model, devices)


def placed_pricer(
    topology: Topology,
    profile: HostProfile,
    devices: Sequence[str],
    shared_cores: int = 0,
) -> TopologyPricer:
    """The prices of ranks that reach other hosts by TCP; one for all their groups.

    Parameters
    ----------
    topology
        The hosts of the ranks.
    profile
        The profile of each host.
    devices
        The device of each rank.
    shared_cores
        As of :class:`~collalgo.cost.link_model.LinkModel`.
    """
    with computing:
        return _placed(topology, profile, tuple(devices), shared_cores)
