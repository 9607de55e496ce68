"""The rounds of a job, as a pure state machine of each process: no clock, no store.

A process keeps its knowledge of the store and derives its writes from that. It writes a
key only at the version that it knows, and receives every change, its own included, by
``Seen``: a write that is lost, late or carried out twice does no harm. One process
leads: it completes rounds. Two leaders at once do no harm either, as each round is
written at the version of the round before.

Time is given as durations that this process has measured itself. The tests explore all
orders of events for three processes.
"""

from collections.abc import Iterable
from dataclasses import replace

from collalgo.bootstrap.store.job_keys import (
    CLOSED,
    ENDING,
    LEADER,
    NODES,
    NOTICE,
    ROUND,
)
from collalgo.bootstrap.store.protocol import ABSENT, Fence
from collalgo.elastic.documents import (
    Closed,
    Leader,
    Node,
    Notice,
)
from collalgo.elastic.events import (
    Action,
    Command,
    Delete,
    Elapsed,
    Event,
    ListProcesses,
    ProcessesListed,
    Seen,
    Write,
)
from collalgo.elastic.participant import Known, Participant, Phase
from collalgo.elastic.tally import Readiness, Tally

#: Seconds that one measurement counts at most: a process that was paused has not
#: observed the others meanwhile.
LONGEST_OBSERVATION = 1.0

#: Seconds between two notices that differ in their numbers only.
NOTICE_SECONDS = 0.2


def step(
    state: Participant, events: Iterable[Event]
) -> tuple[Participant, list[Action]]:
    """The state after some events, and the actions that follow."""
    for event in events:
        state = _observed(state, event)
    wanted = _wanted(state)
    fresh = [action for action in wanted if action not in state.sent]
    return replace(state, sent=frozenset(wanted)), fresh


# ---- events


def _observed(state: Participant, event: Event) -> Participant:
    match event:
        case Seen():
            return _settled(_seen(state, event))
        case ProcessesListed():
            for each in event.nodes:
                state = _seen(state, each)
            return replace(state, surveyed=state.leads)
        case Elapsed():
            return _elapsed(state, event.seconds)
        case Command.ASK:
            return replace(state, phase=Phase.ASKING, after=state.round.epoch)
        case Command.LEAVE:
            return replace(state, phase=Phase.LEAVING, epoch=0, surveyed=False)
        case Command.RETRY:
            return replace(state, sent=frozenset())


def _seen(state: Participant, seen: Seen) -> Participant:
    """Record the value of a key, unless a later version is known."""
    known = state.value(seen.key)
    is_deletion = seen.value is None and seen.version == known.version
    if seen.version <= known.version and not is_deletion:
        return state
    known_now = {**state.known, seen.key: Known(seen.version, seen.value)}
    quiet = 0.0 if seen.key == NOTICE else state.quiet
    return replace(state, known=known_now, quiet=quiet)


def _settled(state: Participant) -> Participant:
    """Become a member of a new epoch, ask for the next, or be expelled."""
    if state.surveyed and not state.leads:
        own = (state.own_key,)
        kept = {
            key: known
            for key, known in state.known.items()
            if not key.startswith(NODES) or key in own
        }
        state = replace(state, known=kept, surveyed=False, waited=0.0)
    epoch = state.round.epoch
    if state.phase is Phase.MEMBER and epoch > state.epoch:
        return replace(state, phase=Phase.OUT)
    if state.phase is Phase.ASKING and epoch > state.after:
        if state.member in state.round.members:
            return replace(state, phase=Phase.MEMBER, epoch=epoch)
        return replace(state, after=epoch)
    return state


def _elapsed(state: Participant, seconds: float) -> Participant:
    """Count the time for which enough processes have asked, or too few are left."""
    seconds = min(seconds, LONGEST_OBSERVATION)
    if not (state.leads and state.surveyed):
        return state
    readiness = state.tally().readiness(state.settings)
    is_ready = readiness is not Readiness.NOT_YET or state.is_ending
    waited = state.waited + seconds if is_ready else 0.0
    return replace(state, waited=waited, quiet=state.quiet + seconds)


def counts_time(state: Participant) -> bool:
    """Whether an action of this process may follow from the time alone."""
    if not (state.leads and state.surveyed):
        return state.leads
    found = state.tally()
    is_ready = found.readiness(state.settings) is not Readiness.NOT_YET
    notice = found.notice(state.round.epoch, state.settings)
    return is_ready or state.is_ending or notice != state.notice


# ---- actions


def _wanted(state: Participant) -> list[Action]:
    """The actions that a state requires, also those that were begun already."""
    return [*_announcement(state), *_leadership(state)]


def _announcement(state: Participant) -> list[Write]:
    """The document of a process, if the store does not hold it."""
    if state.phase is Phase.OUT:
        return []
    is_leaving = state.phase is Phase.LEAVING
    own = state.value(state.own_key)
    node = Node(state.member, state.after, is_leaving)
    if own.value == node or (is_leaving and own.value is None):
        return []
    return [Write(state.own_key, node, own.expected, leased=True)]


def _leadership(state: Participant) -> Iterable[Action]:
    """Lead if no process does, and resign where this process must not lead."""
    if not state.may_lead:
        return [Delete(LEADER, state.value(LEADER).version)] if state.leads else []
    if state.leader is None:
        leader = Leader(state.member, state.settings.all_terms)
        return [Write(LEADER, leader, ABSENT, leased=True)]
    if not state.leads:
        return []
    return _of_leader(state) if state.surveyed else [ListProcesses()]


def _of_leader(state: Participant) -> list[Write | Delete]:
    """Complete the round or end the job; else announce the reason of the round."""
    found, present = state.tally(), state.value(ROUND).expected
    leading = Fence(LEADER, state.value(LEADER).version)
    if end := _end(state, found, leading):
        return [end]
    if _is_complete(state, found.readiness(state.settings)):
        new = found.next_round(state.round, state.settings)
        return [Write(ROUND, new, present, (leading, Fence(CLOSED, ABSENT)))]
    notice = found.notice(state.round.epoch, state.settings)
    if not _is_due(state, notice):
        return []
    return [Write(NOTICE, notice, state.value(NOTICE).expected, (leading,))]


def _end(state: Participant, found: Tally, leading: Fence) -> Write | Delete | None:
    """Close a job of which too few remain after the end of one, or forget that end.

    It is forgotten once no member of the epoch is left: the job has begun again.
    """
    ending = state.value(ENDING)
    if ending.value is None:
        return None
    if not (found.survivors or found.at_work):
        return Delete(ENDING, ending.version)
    if not state.is_ending or state.waited < state.settings.last_call:
        return None
    living = len(found.survivors) + len(found.at_work) + len(found.newcomers)
    least = state.settings.least
    reason = f"others ended, {living} of {least} ranks remain"
    return Write(CLOSED, Closed(reason), ABSENT, (leading,))


def _is_complete(state: Participant, readiness: Readiness) -> bool:
    match readiness:
        case Readiness.LAST_CALL:
            return state.waited >= state.settings.last_call
        case Readiness.STRAGGLERS:
            return state.waited >= state.settings.patience
    return readiness is Readiness.COMPLETE


def _is_due(state: Participant, notice: Notice) -> bool:
    """Whether a notice is new, and urgent or due."""
    last = state.notice
    if notice == last or not notice.epoch:
        return False
    begins_failure = notice.is_failure and not last.is_failure
    begins_waiting = bool(notice.waiting) != bool(last.waiting)
    return begins_failure or begins_waiting or state.quiet >= NOTICE_SECONDS
