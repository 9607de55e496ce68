"""The bounds of collectives for ranks on the devices of a topology."""

from collections.abc import Mapping

from collalgo.cost.bounds import Bound, bound_of
from collalgo.cost.late_ranks import last_of
from collalgo.cost.placement import Placement
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.topology.places import ranks_of


def placement_bound(
    collective: str,
    placement: Placement,
    root: int,
    late: Mapping[int, float] | None = None,
) -> Bound | None:
    """The bound of a collective, if all devices of the topology have a rank.

    Of an allreduce with late ranks the data of the last one remains, which all others
    need as in a broadcast from it; of others with late ranks the bound is not known.
    ``late`` has the seconds of each.
    """
    if late:
        if collective != "allreduce":
            return None
        collective, root = "broadcast", last_of(late)
    if isinstance(placement.machine, UniformCluster):
        return None
    everybody = ranks_of(placement.machine)
    if set(placement.devices) != set(everybody):
        return None
    at = everybody.index(placement.devices[root])
    return bound_of(collective, placement.machine, at, placement.link_model)
