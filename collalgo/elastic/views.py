"""The views of the state of a process for users of the rendezvous."""

from collalgo.bootstrap.store.job_keys import ROUND
from collalgo.bootstrap.store.protocol import Fence
from collalgo.elastic.documents import Notice
from collalgo.elastic.interface import Membership, MembershipChange
from collalgo.elastic.participant import Participant, Phase


def membership_of(state: Participant) -> Membership:
    """The place of a member in its epoch."""
    members = state.round.members
    return Membership(
        state.epoch,
        tuple(member.name for member in members),
        members.index(state.member),
        state.round.why,
        Fence(ROUND, state.value(ROUND).version),
        tuple(member.token for member in members),
    )


def change_of(state: Participant) -> MembershipChange | None:
    """The reason of a process for the next round, or None."""
    notice = state.notice if state.phase is Phase.MEMBER else Notice()
    present = len(state.round.members) - len(notice.lost) + notice.waiting
    found = MembershipChange(
        state.epoch,
        notice.lost,
        notice.asking,
        notice.waiting,
        is_expelled=state.phase is Phase.OUT and state.epoch > 0,
        closed=state.closed,
        is_full=notice.waiting > 0 and present >= state.settings.most,
    )
    return None if found == MembershipChange(state.epoch) else found
