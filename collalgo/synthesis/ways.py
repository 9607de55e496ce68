"""The ways to do each collective: its stages, one after the other."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from collalgo.synthesis import path_traffic, traffic, wave_traffic
from collalgo.synthesis.share_traffic import shares
from collalgo.synthesis.traffic import Maker


class Stage(NamedTuple):
    """A part of a collective.

    Attributes
    ----------
    make : callable
        Makes its traffic.
    reverse : bool
        Whether data moves from the ends of the trees to their roots.
    reduces : bool
        Whether data is combined.
    """

    make: Maker
    reverse: bool = False
    reduces: bool = False


#: The name of ways in which all trees carry data in each step, and of that in which
#: each rank combines a share of the buffer.
WAVES, SHARES = "waves", "shares"

#: The ways to do each collective, by name.
PLANNED: Mapping[str, Mapping[str, tuple[Stage, ...]]] = MappingProxyType(
    {
        "allgather": {
            "trees": (Stage(traffic.allgather),),
            WAVES: (Stage(wave_traffic.allgather),),
        },
        "reduce_scatter": {
            "trees": (Stage(traffic.allgather, True, True),),
            WAVES: (Stage(wave_traffic.allgather, True, True),),
        },
        "allreduce": {
            "trees": (Stage(traffic.allreduce, reduces=True),),
            "blocks": (Stage(traffic.allgather, True, True), Stage(traffic.allgather)),
            SHARES: (Stage(shares, True, True), Stage(shares)),
            WAVES: (Stage(wave_traffic.allreduce, reduces=True),),
        },
        "broadcast": {
            "trees": (Stage(traffic.broadcast),),
            WAVES: (Stage(wave_traffic.broadcast),),
        },
        "reduce": {
            "trees": (Stage(traffic.broadcast, True, True),),
            WAVES: (Stage(wave_traffic.broadcast, True, True),),
        },
        "scatter": {way: (Stage(one),) for way, one in path_traffic.PATHS.items()},
        "gather": {way: (Stage(one, True),) for way, one in path_traffic.PATHS.items()},
        "alltoall": {"paths": (Stage(path_traffic.alltoall),)},
    }
)

#: The collectives that are planned for more ranks than an alltoall.
OF_MANY = tuple(name for name in PLANNED if name != "alltoall")
