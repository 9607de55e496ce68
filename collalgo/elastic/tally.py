"""The members of the next round, counted by the leader; no clock, no store."""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from enum import Enum

from collalgo.base.hostlist import natural_order
from collalgo.elastic.documents import Node, Notice, Round
from collalgo.elastic.schema import Member
from collalgo.elastic.settings import Settings


class Readiness(Enum):
    """Whether a round can be completed."""

    NOT_YET = "too few ask, or the members of the epoch are at work"
    LAST_CALL = "enough ask, and others may still join"
    STRAGGLERS = "enough ask, and members that are alive do not"
    COMPLETE = "there are no others to wait for"


@dataclass(frozen=True)
class Tally:
    """The processes that a leader knows, by their role in the next round.

    Attributes
    ----------
    survivors : tuple of Member
        Members of the present epoch that ask for the next, in the order of ranks.
    at_work : tuple of Member
        Members of the present epoch that live and do not ask.
    lost : tuple of Member
        Members of the present epoch that have ended, left or been excluded.
    excluded : tuple of Member
        Those of the lost members that were excluded.
    newcomers : tuple of Member
        Others that ask, in the order in which they began.
    """

    survivors: tuple[Member, ...]
    at_work: tuple[Member, ...]
    lost: tuple[Member, ...]
    excluded: tuple[Member, ...]
    newcomers: tuple[Member, ...]

    def readiness(self, settings: Settings) -> Readiness:
        """Whether the next round can be completed."""
        ready = len(self.survivors) + len(self.newcomers)
        if ready < settings.least or (self.at_work and not self.survivors):
            return Readiness.NOT_YET
        if self.at_work:
            return Readiness.STRAGGLERS
        if len(self.survivors) >= settings.least or ready >= settings.most:
            return Readiness.COMPLETE
        return Readiness.LAST_CALL

    def are_too_few(self, settings: Settings) -> bool:
        """Whether members of the epoch live, and too few processes for the next."""
        old = len(self.survivors) + len(self.at_work)
        return old > 0 and old + len(self.newcomers) < settings.least

    def next_round(self, present: Round, settings: Settings) -> Round:
        """The next round: survivors in their order, then newcomers.

        The first newcomers are admitted. They are sorted by name, so that in the first
        epoch of ``collalgo run -n`` each has the rank that the launcher shows.
        """
        places = max(settings.most - len(self.survivors), 0)
        newcomers = sorted(
            self.newcomers[:places], key=lambda each: natural_order(each.name)
        )
        members = (*self.survivors, *newcomers)[: settings.most]
        terms = present.terms or settings.all_terms
        return Round(present.epoch + 1, members, terms, self._why(present))

    def notice(self, epoch: int, settings: Settings) -> Notice:
        """The notice for the members of an epoch.

        Only the newcomers that would be admitted count: a full job needs no round for
        others.
        """
        lost = tuple(member.name for member in self.lost)
        places = settings.most - len(self.survivors) - len(self.at_work)
        waiting = min(len(self.newcomers), max(places, 0))
        return Notice(epoch, lost, len(self.survivors), waiting)

    def _why(self, present: Round) -> str:
        """The reason of a round."""
        if not present.epoch:
            return "the job has begun"
        lost = tuple(member for member in self.lost if member not in self.excluded)
        reasons = [
            f"{what}: {who[0].name}"
            + (f" and {len(who) - 1} more" if len(who) > 1 else "")
            for what, who in (
                ("lost", lost),
                ("excluded", self.excluded),
                ("left out as they did not ask in time", self.at_work),
                ("new", self.newcomers),
            )
            if who
        ]
        return ("; ".join(reasons) or "its members asked for it")[:MOST_WHY]


#: Characters of the reason of a round at most.
MOST_WHY = 200


def tally(
    present: Round, nodes: Mapping[str, Node | None], excluded: Container[str]
) -> Tally:
    """Count the processes for the round after the present one.

    Parameters
    ----------
    present
        The present round.
    nodes
        The documents of processes by their tokens, the earliest first; None for those
        that have ended.
    excluded
        Names of nodes that may not take part.
    """
    alive = {
        token: node
        for token, node in nodes.items()
        if node is not None and not node.left and node.member.name not in excluded
    }
    asks = {token for token, node in alive.items() if node.after >= present.epoch}
    at_work = alive.keys() - asks
    old = {member.token for member in present.members}
    lost = tuple(m for m in present.members if m.token not in alive)
    return Tally(
        survivors=tuple(m for m in present.members if m.token in asks),
        at_work=tuple(m for m in present.members if m.token in at_work),
        lost=lost,
        excluded=tuple(member for member in lost if member.name in excluded),
        newcomers=tuple(
            node.member
            for token, node in alive.items()
            if token in asks and token not in old
        ),
    )
