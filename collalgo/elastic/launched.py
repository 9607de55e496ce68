"""Where the members of a job meet that a launcher has started."""

import os
from collections.abc import Mapping

from collalgo.elastic.backends import rendezvous
from collalgo.elastic.epochs import Meeting
from collalgo.elastic.settings import Settings
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import BootstrapError
from collalgo.launch.environment import JOB, MEMBER, MEMBERS, RENDEZVOUS

#: Seconds that the first members wait for those that are still starting.
LAST_CALL = 10.0


def meeting_of_launcher(environment: Mapping[str, str] | None = None) -> Meeting | None:
    """Where the members meet, as the launcher says; None if they cannot change.

    Raises
    ------
    BootstrapError
        If a variable is malformed.
    """
    env = os.environ if environment is None else environment
    if RENDEZVOUS not in env:
        return None
    try:
        least, most = map(int, env[MEMBERS].split(":"))
        settings = Settings(least, most, last_call=LAST_CALL)
        meeting = rendezvous(env[RENDEZVOUS], env[JOB], settings, env[MEMBER])
    except (KeyError, ValueError) as error:
        raise BootstrapError(
            f"{RENDEZVOUS} is set, but {MEMBERS} (as 2:4), {MEMBER} or {JOB} is not, "
            f"or will not do ({error}); the launcher must set them"
        ) from None
    if not isinstance(meeting, StoreRendezvous):
        raise BootstrapError(f"{env[RENDEZVOUS]} has no store, which members need")
    return meeting
