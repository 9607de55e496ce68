"""The rendezvous of a job that a launcher has started."""

from collections.abc import Mapping

from collalgo.base.environment import JOB, MEMBER, MEMBERS, RENDEZVOUS
from collalgo.elastic.backends import rendezvous
from collalgo.elastic.epochs import Meeting
from collalgo.elastic.settings import Settings
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import BootstrapError

#: Seconds that the first members wait for those that are still starting.
LAST_CALL = 10.0


def meeting_of_launcher(environment: Mapping[str, str] | None = None) -> Meeting | None:
    """The rendezvous that the launcher has set; None if members cannot change.

    Raises
    ------
    BootstrapError
        If a variable is malformed.
    """
    url, members = RENDEZVOUS.given(environment), MEMBERS.value(environment)
    if not url:
        return None
    name, job = MEMBER.given(environment), JOB.given(environment)
    try:
        least, most = members or (0, 0)
        settings = Settings(least, most, last_call=LAST_CALL)
        meeting = rendezvous(url, job, settings, name or None)
    except ValueError as error:
        raise BootstrapError(
            f"{RENDEZVOUS.name} is set, but {MEMBERS.name} (as 2:4), {MEMBER.name} or "
            f"{JOB.name} is invalid ({error}); the launcher must set both"
        ) from None
    if not isinstance(meeting, StoreRendezvous):
        raise BootstrapError(f"{url} has no store, which members need")
    return meeting
