"""The documents that the members of a job write to the store for each other."""

from collections.abc import Callable
from dataclasses import dataclass, field

from collalgo.bootstrap.store.job_keys import COMMON, NODES
from collalgo.elastic.schema import Fields, Member, encode
from collalgo.launch.options import MOST_MEMBERS


@dataclass(frozen=True)
class Node:
    """The state of a process, as it publishes it.

    Attributes
    ----------
    member : Member
        The process.
    after : int
        It asks for an epoch greater than this one; it is at work in a greater one.
    left : bool
        Whether it has left the job.
    """

    member: Member
    after: int
    left: bool = False


@dataclass(frozen=True)
class Round:
    """The outcome of a round: the members of an epoch.

    Attributes
    ----------
    epoch : int
        Its number; 0 before the first round.
    members : tuple of Member
        In the order of their ranks.
    terms : dict
        The properties that all members must share, as text by name.
    why : str
        The reason of the round.
    """

    epoch: int = 0
    members: tuple[Member, ...] = ()
    terms: dict[str, str] = field(default_factory=dict, hash=False)
    why: str = ""


@dataclass(frozen=True)
class Leader:
    """The process that completes rounds at present, and the terms of the job."""

    member: Member
    terms: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Notice:
    """The reason for the next round, as the leader sees it.

    Attributes
    ----------
    epoch : int
        The epoch that has to end.
    lost : tuple of str
        Names of the members that have ended, left or been excluded.
    asking : int
        The number of members that ask for another epoch.
    waiting : int
        The number of waiting processes that the next epoch would admit.
    """

    epoch: int = 0
    lost: tuple[str, ...] = ()
    asking: int = 0
    waiting: int = 0

    @property
    def is_failure(self) -> bool:
        """Whether the epoch has lost a member, or a member has left it."""
        return bool(self.lost or self.asking)


@dataclass(frozen=True)
class Excluded:
    """Names of nodes that may not take part at present, with the reasons."""

    reasons: dict[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Closed:
    """The end of a job: no further round is completed."""

    reason: str = ""


@dataclass(frozen=True)
class Ending:
    """The beginning of the end: a rank has ended with exit code 0, by its launcher."""

    reason: str = ""


#: What a document says.
Document = Node | Round | Leader | Notice | Excluded | Closed | Ending


def encoded(document: Document) -> bytes:
    """The bytes of a document."""
    return encode(**vars(document))


def decoded(key: str, value: bytes) -> Document:
    """The document in a key.

    Raises
    ------
    RendezvousError
        If the value is malformed.
    """
    name = "node" if key.startswith(NODES) else key.removeprefix(COMMON)
    return _READERS[name](Fields(value, name))


def _node(fields: Fields) -> Node:
    return Node(fields.member("member"), fields.number("after"), fields.flag("left"))


def _round(fields: Fields) -> Round:
    return Round(
        fields.number("epoch", least=1),
        fields.members("members"),
        fields.terms("terms"),
        fields.text("why"),
    )


def _leader(fields: Fields) -> Leader:
    return Leader(fields.member("member"), fields.terms("terms"))


def _notice(fields: Fields) -> Notice:
    return Notice(
        fields.number("epoch"),
        fields.texts("lost"),
        fields.number("asking"),
        fields.number("waiting"),
    )


_READERS: dict[str, Callable[[Fields], Document]] = {
    "node": _node,
    "round": _round,
    "leader": _leader,
    "notice": _notice,
    "excluded": lambda fields: Excluded(fields.terms("reasons", MOST_MEMBERS)),
    "closed": lambda fields: Closed(fields.text("reason")),
    "ending": lambda fields: Ending(fields.text("reason")),
}
