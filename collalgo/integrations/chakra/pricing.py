"""The prices of the calls of a trace on a topology."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from collalgo.base.cpu_list import shown
from collalgo.cost.link_model import DEFAULTS, LinkModel
from collalgo.integrations.chakra.calls import Call, Calls
from collalgo.integrations.chakra.wire import ChakraError
from collalgo.selection.choice import select
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.selection import Selection
from collalgo.topology.model import Topology
from collalgo.topology.places import ranks_of

#: Collectives whose buffer holds the inputs of all ranks.
OF_ALL = {"allgather", "gather"}


class PricedCall(NamedTuple):
    """A call of a trace with its price.

    Attributes
    ----------
    call : Call
        The call.
    times : int
        The number of its times in the trace.
    size : int
        The number of ranks of its group.
    nbytes : int
        The bytes of the buffer of a rank, as ``collalgo select`` counts them.
    selection : Selection or None
        The choice of the algorithm; None for a call without bytes or with one rank.
    """

    call: Call
    times: int
    size: int
    nbytes: int
    selection: Selection | None

    @property
    def seconds(self) -> float:
        """The predicted seconds of all times together."""
        return self.times * (self.selection.seconds if self.selection else 0.0)


def priced(
    calls: Calls,
    topology: Topology,
    groups: Mapping[str, Sequence[int]] | None = None,
    link_model: LinkModel = DEFAULTS,
) -> list[PricedCall]:
    """Select an algorithm for each call of a trace, and price it alone.

    Parameters
    ----------
    calls
        The calls.
    topology
        The machine; each of its ranks has a device.
    groups
        The ranks of process groups by name. A trace does not have them: a group that is
        not here has all ranks.
    link_model
        The cost of messages, where the links do not state it.

    Raises
    ------
    ChakraError
        If a group is empty or has a rank twice or one that the topology does not have.
    """
    devices, groups = ranks_of(topology), groups or {}
    pricers: dict[tuple[int, ...], TopologyPricer] = {}
    found = []
    for call, times in calls.calls.items():
        ranks = tuple(groups.get(call.group, range(len(devices))))
        _check(call.group, ranks, len(devices))
        nbytes = call.nbytes * (len(ranks) if call.collective in OF_ALL else 1)
        choice = None
        if len(ranks) > 1 and (nbytes or call.collective == "barrier"):
            if ranks not in pricers:
                chosen = [devices[rank] for rank in ranks]
                pricers[ranks] = TopologyPricer(topology, link_model, chosen)
            choice = select(call.collective, nbytes, topology=pricers[ranks])
        found.append(PricedCall(call, times, len(ranks), nbytes, choice))
    return found


def _check(name: str, ranks: Sequence[int], size: int) -> None:
    if not ranks or len(set(ranks)) < len(ranks) or not set(ranks) <= set(range(size)):
        raise ChakraError(
            f"group {name!r} has the ranks {shown(ranks) or 'none'}; it needs some of "
            f"0 to {size - 1}, each once"
        )
