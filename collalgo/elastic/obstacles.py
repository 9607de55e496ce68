"""The errors of ``join``: the reasons why a process cannot become a member."""

import logging

from collalgo.bootstrap.store.job_start import differing
from collalgo.elastic.participant import Participant
from collalgo.errors import RendezvousClosed, RendezvousError

_LOG = logging.getLogger("collalgo")


class MemberExcluded(RendezvousError):
    """The process is excluded from its job.

    Parameters
    ----------
    name, where
        Its name, and the job.
    reason
        The reason of its exclusion.
    """

    def __init__(self, name: str, where: str, reason: str):
        self.name, self.reason = name, reason
        super().__init__(
            f"node {name} cannot join {where}: it is excluded ({reason}); readmit it"
        )

    def __reduce__(self) -> tuple[type[RendezvousError], tuple[str]]:
        return RendezvousError, (str(self),)


def obstacle(state: Participant, where: str) -> RendezvousError | None:
    """The reason why a process cannot become a member; None if it can."""
    name = state.member.name
    if state.closed is not None:
        reason = state.closed or "it has ended"
        return RendezvousClosed(
            f"node {name} cannot join {where}, which is closed ({reason}); start "
            "another job under another id"
        )
    if name in state.excluded:
        return MemberExcluded(name, where, state.excluded[name])
    if difference := state.differing_terms:
        return RendezvousError(differing(name, where, *difference))
    return None


def too_late(state: Participant, where: str, timeout: float) -> RendezvousError:
    """The error of a process that has waited too long."""
    found = state.tally() if state.leads and state.surveyed else None
    if state.leader is None:
        why = "no process leads"
    elif found is None:
        why = f"{state.leader.member.name} leads but has not completed a round"
    elif found.at_work:
        why = (
            f"{len(found.at_work)} members still run the last epoch "
            f"({found.at_work[0].name})"
        )
    else:
        ready = len(found.survivors) + len(found.newcomers)
        why = f"{ready} processes want to join but {state.settings.least} are needed"
    return RendezvousError(
        f"node {state.member.name} did not join {where} in {timeout:g} s: {why}; "
        "start the missing nodes, or raise join_timeout"
    )


def end_of_excluded(error: MemberExcluded) -> SystemExit:
    """The end of a process that is excluded: a line in the log, and no traceback."""
    _LOG.warning("%s is excluded (%s); it ends", error.name, error.reason)
    return SystemExit(1)
