"""Where the members of a job meet that a launcher has started."""

from collections.abc import Mapping

from collalgo.base.environment import JOB, MEMBER, MEMBERS, RENDEZVOUS, SILENCE
from collalgo.elastic.backends import rendezvous
from collalgo.elastic.epochs import Meeting
from collalgo.elastic.settings import Settings
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import BootstrapError

#: Seconds that the first members wait for those that are still starting.
LAST_CALL = 10.0


def meeting_of_launcher(environment: Mapping[str, str] | None = None) -> Meeting | None:
    """Where the members meet, as the launcher says; None if they cannot change.

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
        silence = SILENCE.value(environment) or Settings.silence
        settings = Settings(least, most, last_call=LAST_CALL, silence=silence)
        meeting = rendezvous(url, job, settings, name or None)
    except ValueError as error:
        raise BootstrapError(
            f"{RENDEZVOUS.name} is set, but {MEMBERS.name} (as 2:4), {MEMBER.name} or "
            f"{JOB.name} will not do ({error}); the launcher must set them"
        ) from None
    if not isinstance(meeting, StoreRendezvous):
        raise BootstrapError(f"{url} has no store, which members need")
    return meeting
