"""The status of an elastic job, from its store."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from collalgo.bootstrap.store.job_keys import (
    CLOSED,
    COMMON,
    EXCLUDED,
    LEADER,
    NODES,
    NOTICE,
    ROUND,
)
from collalgo.bootstrap.store.protocol import Change, KeyValueStore, Subscription
from collalgo.elastic.documents import (
    Closed,
    Document,
    Excluded,
    Leader,
    Node,
    Notice,
    Round,
    decoded,
)
from collalgo.elastic.history import HISTORY, PastEpoch, history, past_epoch
from collalgo.elastic.schema import Member
from collalgo.elastic.tally import Tally, tally

#: Failures that are shown.
SHOWN_FAILURES = 5

#: Names of members.
Names = tuple[str, ...]

#: An event: its name and its fields, as JSON.
Event = dict[str, Any]


@dataclass(frozen=True)
class Status:
    """What a job is doing.

    Attributes
    ----------
    epoch : int
        The number of its present epoch; 0 before the first.
    members, processes : tuple of str
        The names of its members, and their hosts and process ids, in the order of
        ranks.
    why : str
        The reason of the epoch, and so of the end of the one before.
    lost, asking, at_work, waiting : tuple of str
        Lost members, members that wait for the next round, members that do not, and
        others that wait.
    leader : str or None
        The process that completes the rounds.
    excluded : dict
        Names that may not take part, with the reasons.
    closed : str or None
        The reason why the job is closed; empty if it is open.
    failures : tuple of PastEpoch
        The last epochs that have begun because members were lost, the last one first.
    """

    epoch: int
    members: Names
    processes: Names
    why: str
    lost: Names
    asking: Names
    at_work: Names
    waiting: Names
    leader: str | None
    excluded: dict[str, str]
    closed: str | None
    failures: tuple[PastEpoch, ...]

    def state(self, name: str) -> str:
        """What a member is doing."""
        if name in self.lost:
            return "excluded" if name in self.excluded else "lost"
        return "asks for the next epoch" if name in self.asking else "at work"


def status(store: KeyValueStore) -> Status:
    """What a job is doing.

    Raises
    ------
    RendezvousError
        If the store holds a malformed document.
    """
    common, nodes = _documents(store, COMMON), _documents(store, NODES)
    present, excluded = common.get(ROUND, Round()), common.get(EXCLUDED, Excluded())
    assert isinstance(present, Round)
    assert isinstance(excluded, Excluded)
    leader, closed = common.get(LEADER), common.get(CLOSED)
    known = {
        key.removeprefix(NODES): node
        for key, node in nodes.items()
        if isinstance(node, Node)
    }
    failures = [each for each in history(store) if each.is_failure]
    return Status(
        *_epoch(present),
        *_groups(tally(present, known, excluded.reasons)),
        leader.member.name if isinstance(leader, Leader) else None,
        excluded.reasons,
        closed.reason if isinstance(closed, Closed) else None,
        tuple(failures[: -SHOWN_FAILURES - 1 : -1]),
    )


def _epoch(present: Round) -> tuple[int, Names, Names, str]:
    """The number of an epoch, its members, their processes, and its reason."""
    processes = tuple(member.process for member in present.members)
    return present.epoch, _names(present.members), processes, present.why


def _groups(found: Tally) -> tuple[Names, Names, Names, Names]:
    """The members that are lost, ask, and are at work, and the others that wait."""
    return (
        _names(found.lost),
        _names(found.survivors),
        _names(found.at_work),
        _names(found.newcomers),
    )


def _names(members: Iterable[Member]) -> Names:
    return tuple(member.name for member in members)


def _documents(store: KeyValueStore, prefix: str) -> dict[str, Document]:
    """The documents below a prefix, the oldest first."""
    found = sorted(store.entries(prefix).items(), key=lambda item: item[1].version)
    return {key: decoded(key, entry.value) for key, entry in found}


def event_of_epoch(past: PastEpoch) -> Event:
    """The event of the begin of an epoch."""
    at = datetime.fromtimestamp(past.milliseconds / 1e3, timezone.utc)
    return {
        "event": "epoch",
        "epoch": past.epoch,
        "members": list(past.members),
        "why": past.why,
        "time": at.isoformat(timespec="milliseconds"),
    }


def follow(store: KeyValueStore, tell: Callable[[Event], None]) -> list[Subscription]:
    """Call a function with the events in the store, then with each as it comes.

    A thread of the store does so.
    """

    def see(change: Change) -> None:
        if change.value is None:
            return
        if change.key.startswith(HISTORY):
            tell(event_of_epoch(past_epoch(change.value)))
        elif change.key in (NOTICE, EXCLUDED, CLOSED):
            tell({**_event_of(decoded(change.key, change.value)), "time": _now()})

    return [store.watch(prefix, see) for prefix in (HISTORY, COMMON)]


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def _event_of(document: Document) -> Event:
    """The event of a document that has changed."""
    match document:
        case Notice():
            return {
                "event": "lost" if document.lost else "notice",
                "epoch": document.epoch,
                "lost": list(document.lost),
                "asking": document.asking,
                "waiting": document.waiting,
            }
        case Excluded():
            return {"event": "excluded", "reasons": document.reasons}
    assert isinstance(document, Closed)
    return {"event": "closed", "reason": document.reason}
