"""A machine for prices and bounds: with a speed for every link."""

from dataclasses import replace

from collalgo.cost.link_model import LinkModel
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.topology import assumed
from collalgo.topology.model import Topology

Machine = Topology | UniformCluster


def with_assumed_speeds(machine: Machine, link_model: LinkModel) -> Machine:
    """A machine without unknown speeds; the same object if it has none."""
    if isinstance(machine, Topology):
        return assumed.with_assumed_speeds(machine, link_model.assumed)
    pair = assumed.with_assumed_speeds(machine.pair, link_model.assumed)
    return machine if pair is machine.pair else replace(machine, pair=pair)


def check_root(root: int, size: int) -> None:
    """Refuse a root that is not a rank.

    Raises
    ------
    TopologyError
        If it is out of range.
    """
    if not 0 <= root < size:
        raise TopologyError(f"root {root} is out of range; there are {size} ranks")
