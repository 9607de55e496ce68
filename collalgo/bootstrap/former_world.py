"""The last world of some processes, of whose ranks the next one may consist.

Such a world needs no other memory, store or engine than they have already.
"""

from collections.abc import Sequence
from typing import NamedTuple

from collalgo.bootstrap.context import Context
from collalgo.bootstrap.exchange import ExchangeGroup
from collalgo.bootstrap.liveness_check import LivenessCheck

#: Separates the identity of a process, its place in its last world, and the ranks of
#: that which it has lost.
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

    @property
    def lost(self) -> str:
        """The ranks that this process regards as lost, though they may live."""
        return ",".join(map(str, self.context.rendezvous.lost()))

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
    """The identities of all processes, and their ranks in a former world of all.

    They have none if one of them is lost to another: for instance after a cut of the
    network that was shorter than a lease.
    """
    own = [identity] if former is None else [identity, former.place, former.lost]
    texts = exchange_group.allgather(PLACE.join(own))
    parts = [(*text.split(PLACE), "", "")[:3] for text in texts]
    identities, places, lost = zip(*parts, strict=True)
    ranks = former_ranks(places)
    unreachable = {int(rank) for each in lost for rank in each.split(",") if rank}
    return list(identities), () if unreachable & {*ranks} else ranks


def former_ranks(places: Sequence[str]) -> tuple[int, ...]:
    """The ranks of processes in their last world; none if they had different ones.

    A process without a last world has an empty place.
    """
    parts = [place.rpartition(":") for place in places]
    if "" in places or len({name for name, _, _ in parts}) > 1:
        return ()
    return tuple(int(rank) for _, _, rank in parts)
