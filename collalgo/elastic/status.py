"""What a job whose members change is doing, as its store shows it."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from collalgo.bootstrap.store.protocol import Change, KeyValueStore, Subscription
from collalgo.elastic import history
from collalgo.elastic.documents import (
    CLOSED,
    COMMON,
    EXCLUDED,
    LEADER,
    NODES,
    NOTICE,
    ROUND,
    Closed,
    Document,
    Excluded,
    Leader,
    Node,
    Notice,
    Round,
    decoded,
)
from collalgo.elastic.history import HISTORY, PastEpoch
from collalgo.elastic.tally import tally

#: Failures that are shown.
SHOWN_FAILURES = 5

#: An event: its name and what belongs to it, as JSON.
Event = dict[str, Any]


@dataclass(frozen=True)
class Status:
    """What a job is doing.

    Attributes
    ----------
    epoch : int
        The number of its present epoch; 0 before the first.
    members : tuple of str
        The names of its members, in the order of ranks.
    why : str
        Why the epoch has begun, which is why the one before has ended.
    lost, asking, at_work, waiting : tuple of str
        Members that are gone, members that wait for the next round, members that do
        not, and others that wait.
    leader : str or None
        Who completes the rounds.
    excluded : dict
        Names that may not take part, with the reasons.
    closed : str or None
        Why the job is closed, if it is.
    failures : tuple of PastEpoch
        The last epochs that have begun because members were lost, the last one first.
    """

    epoch: int
    members: tuple[str, ...]
    why: str
    lost: tuple[str, ...]
    asking: tuple[str, ...]
    at_work: tuple[str, ...]
    waiting: tuple[str, ...]
    leader: str | None
    excluded: dict[str, str]
    closed: str | None
    failures: tuple[PastEpoch, ...]


def status(store: KeyValueStore) -> Status:
    """What a job is doing.

    Raises
    ------
    RendezvousError
        If what the store holds is malformed.
    """
    common = _documents(store, COMMON)
    nodes = _documents(store, NODES)
    present = common.get(ROUND, Round())
    excluded = common.get(EXCLUDED, Excluded())
    leader, closed = common.get(LEADER), common.get(CLOSED)
    assert isinstance(present, Round)
    assert isinstance(excluded, Excluded)
    known = {
        key.removeprefix(NODES): node
        for key, node in nodes.items()
        if isinstance(node, Node)
    }
    found = tally(present, known, excluded.reasons)
    failures = [each for each in history.history(store) if each.is_failure]
    groups = (present.members, found.lost, found.survivors, found.at_work)
    members, lost, asking, at_work = (tuple(m.name for m in each) for each in groups)
    return Status(
        present.epoch,
        members,
        present.why,
        lost,
        asking,
        at_work,
        tuple(member.name for member in found.newcomers),
        leader.member.name if isinstance(leader, Leader) else None,
        excluded.reasons,
        closed.reason if isinstance(closed, Closed) else None,
        tuple(failures[: -SHOWN_FAILURES - 1 : -1]),
    )


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
    """Call a function with each event from now on; a thread of the store does so."""

    def see(change: Change) -> None:
        if change.value is None:
            return
        if change.key.startswith(HISTORY):
            tell(event_of_epoch(history.decoded(change.value)))
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
