"""A machine for prices and bounds: with a speed for every link."""

from dataclasses import replace

from collalgo.base.arguments import wrong_type
from collalgo.cost.link_model import LinkModel
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import TopologyError
from collalgo.topology import assumed
from collalgo.topology.model import Topology

Machine = Topology | UniformCluster

#: What to pass as a machine, for errors.
A_TOPOLOGY = (
    "a Topology: Topology.read(path) of a file, or Topology.load(name) of a machine"
)


def with_assumed_speeds(machine: Machine, link_model: LinkModel) -> Machine:
    """A machine without unknown speeds; the same object if it has none."""
    if isinstance(machine, Topology):
        return assumed.with_assumed_speeds(machine, link_model.assumed)
    pair = assumed.with_assumed_speeds(machine.pair, link_model.assumed)
    return machine if pair is machine.pair else replace(machine, pair=pair)


def check_machine(machine: object, caller: str, name: str) -> None:
    """Refuse a machine of another type, as the name of one.

    Raises
    ------
    TypeError
        If it is neither a topology nor a cluster.
    """
    if not isinstance(machine, Machine):
        raise wrong_type(caller, name, machine, A_TOPOLOGY)


def check_root(root: int, size: int) -> None:
    """Refuse a root that is not a rank.

    Raises
    ------
    TopologyError
        If it is out of range.
    """
    if not 0 <= root < size:
        raise TopologyError(f"root {root} is out of range; there are {size} ranks")
