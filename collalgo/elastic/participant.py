"""The knowledge of one process of the rounds of a job; see :mod:`.rounds`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from collalgo.bootstrap.store.job_keys import (
    CLOSED,
    ENDING,
    EXCLUDED,
    LEADER,
    NODES,
    NOTICE,
    ROUND,
)
from collalgo.bootstrap.store.job_start import first_difference
from collalgo.bootstrap.store.protocol import ABSENT
from collalgo.elastic.documents import (
    Closed,
    Document,
    Excluded,
    Leader,
    Node,
    Notice,
    Round,
)
from collalgo.elastic.events import Action
from collalgo.elastic.schema import Member
from collalgo.elastic.settings import Settings
from collalgo.elastic.tally import Tally, tally


class Phase(Enum):
    """The role of a process in the job."""

    OUT = "it has not joined, or was expelled"
    ASKING = "it asks for an epoch greater than those that it knows"
    MEMBER = "it is a member of an epoch"
    LEAVING = "it leaves the job"


class Known(NamedTuple):
    """The value of a key when this process last received it."""

    version: int = ABSENT
    value: Document | None = None

    @property
    def expected(self) -> int:
        """The version by which a write replaces this."""
        return ABSENT if self.value is None else self.version


@dataclass(frozen=True)
class Participant:
    """The state of one process.

    Attributes
    ----------
    member : Member
        The process.
    settings : Settings
        The settings of the job.
    phase : Phase
        Its role in the job.
    after : int
        The epoch that it last asked to exceed.
    epoch : int
        The epoch of which it is a member; 0 outside of all epochs.
    known : dict
        The keys, as it knows them.
    surveyed : bool
        Whether it knows the keys of all processes.
    waited, quiet : float
        Seconds since enough processes ask, and since the last notice.
    sent : frozenset of Action
        The actions of which it has not seen the effect.
    """

    member: Member
    settings: Settings
    phase: Phase = Phase.OUT
    after: int = 0
    epoch: int = 0
    known: Mapping[str, Known] = field(default_factory=dict)
    surveyed: bool = False
    waited: float = 0.0
    quiet: float = 0.0
    sent: frozenset[Action] = frozenset()

    # ---- its knowledge

    def value(self, key: str) -> Known:
        """Its knowledge of a key."""
        return self.known.get(key, Known())

    @property
    def round(self) -> Round:
        """The last round that it knows."""
        found = self.value(ROUND).value
        return found if isinstance(found, Round) else Round()

    @property
    def closed(self) -> str | None:
        """The reason why the job is closed; None if it is open."""
        found = self.value(CLOSED).value
        return found.reason if isinstance(found, Closed) else None

    @property
    def is_ending(self) -> bool:
        """Whether too few processes remain after the end of one with exit code 0."""
        if self.value(ENDING).value is None:
            return False
        return self.tally().are_too_few(self.settings)

    @property
    def leader(self) -> Leader | None:
        """The present leader."""
        found = self.value(LEADER).value
        return found if isinstance(found, Leader) else None

    @property
    def leads(self) -> bool:
        """Whether this process knows itself as the leader."""
        return self.leader is not None and self.leader.member == self.member

    @property
    def excluded(self) -> dict[str, str]:
        """Names of nodes that may not take part, with reasons."""
        found = self.value(EXCLUDED).value
        return found.reasons if isinstance(found, Excluded) else {}

    @property
    def notice(self) -> Notice:
        """The last notice of the present epoch."""
        found = self.value(NOTICE).value
        if isinstance(found, Notice) and found.epoch == self.round.epoch:
            return found
        return Notice(self.round.epoch)

    @property
    def may_lead(self) -> bool:
        """Whether it joins rounds that can be completed."""
        is_active = self.phase in (Phase.ASKING, Phase.MEMBER)
        return is_active and self.closed is None and not self.differing_terms

    @property
    def own_key(self) -> str:
        """The key of this process."""
        return NODES + self.member.token

    @property
    def differing_terms(self) -> tuple[str, str, str] | None:
        """A term that differs: its name, the value of the job, and that of ours."""
        leading = self.leader.terms if self.leader is not None else {}
        return first_difference(self.round.terms or leading, self.settings.all_terms)

    def tally(self) -> Tally:
        """The processes that it knows, counted for the next round."""
        nodes = {
            key.removeprefix(NODES): known
            for key, known in self.known.items()
            if key.startswith(NODES)
        }
        order = sorted(nodes, key=lambda token: nodes[token].version)
        values = {token: nodes[token].value for token in order}
        found = {t: v for t, v in values.items() if isinstance(v, Node)}
        return tally(self.round, found, self.excluded)
