"""The last world of some processes, of whose ranks the next one may consist.

Such a world needs no other memory, store or engine than they have already.
"""

from collections.abc import Sequence
from typing import NamedTuple

from collalgo.bootstrap.context import Context
from collalgo.bootstrap.exchange import ExchangeGroup
from collalgo.bootstrap.liveness_check import LivenessCheck

#: Precedes the place of a process in its last world, after its identity.
PLACE = "\t"


class FormerWorld(NamedTuple):
    """The last world of this process.

    Attributes
    ----------
    name : str
        Its name: all its ranks know it by that, and no other world.
    context : Context
        The end of this process of it.
    """

    name: str
    context: Context

    @property
    def place(self) -> str:
        """The place of this process in it."""
        return f"{self.name}:{self.context.transport.rank}"

    def can_connect(self, members: Sequence[int]) -> bool:
        """Whether these of its ranks have all that they need; each finds the same."""
        return bool(members) and self.context.rendezvous.suffices(members)

    def connect(
        self,
        name: str,
        members: Sequence[int],
        timeout: float,
        liveness: LivenessCheck,
    ) -> Context:
        """Connect some of its ranks, this one included, as a new world."""
        before = self.context
        rank = members.index(before.transport.rank)
        found = before.rendezvous.connect(
            name, rank, members, timeout, check=liveness.check
        )
        found.machine = found.machine or before.machine
        found.end_job = before.end_job
        return found


def introduced(
    exchange_group: ExchangeGroup, identity: str, former: FormerWorld | None
) -> tuple[list[str], tuple[int, ...]]:
    """The identities of all processes, and their ranks in a former world of all."""
    place = "" if former is None else f"{PLACE}{former.place}"
    parts = [
        text.partition(PLACE) for text in exchange_group.allgather(identity + place)
    ]
    identities = [identity for identity, _, _ in parts]
    return identities, former_ranks([place for _, _, place in parts])


def former_ranks(places: Sequence[str]) -> tuple[int, ...]:
    """The ranks of processes in their last world; none if they had different ones.

    A process without a last world has an empty place.
    """
    parts = [place.rpartition(":") for place in places]
    if "" in places or len({name for name, _, _ in parts}) > 1:
        return ()
    return tuple(int(rank) for _, _, rank in parts)
