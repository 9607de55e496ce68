"""The rendezvous of a job that a launcher has started."""

import hashlib
import sys
from collections.abc import Mapping
from pathlib import Path

from collalgo._version import __version__
from collalgo.base.environment import JOB, MEMBER, MEMBERS, RENDEZVOUS, SILENCE
from collalgo.elastic.backends import rendezvous
from collalgo.elastic.epochs import RendezvousWithStore
from collalgo.elastic.settings import Settings
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import BootstrapError

#: Seconds that the first members wait for those that are still starting.
LAST_CALL = 10.0

#: Characters of the name of a script at most.
MOST_NAME = 200


def rendezvous_of_launcher(
    environment: Mapping[str, str] | None = None,
) -> RendezvousWithStore | None:
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
    silence = SILENCE.value(environment) or Settings.silence
    try:
        settings = _settings(members or (0, 0), silence)
        found = rendezvous(url, job, settings, name or None)
    except ValueError as error:
        raise BootstrapError(
            f"{RENDEZVOUS.name} is set, but {MEMBERS.name} (as 2:4), {MEMBER.name}, "
            f"{JOB.name} or {SILENCE.name} is invalid ({error}); the launcher sets them"
        ) from None
    if not isinstance(found, StoreRendezvous):
        raise BootstrapError(f"{url} has no store, which members need")
    return found


def _settings(members: tuple[int, int], silence: float) -> Settings:
    """The settings of a job with some least and most members."""
    terms = {"collalgo": __version__, **_script()}
    return Settings(*members, last_call=LAST_CALL, silence=silence, terms=terms)


def _script() -> dict[str, str]:
    """The name of the script of this process and a digest: all members run the same."""
    path = Path(getattr(sys.modules["__main__"], "__file__", None) or "")
    if not path.is_file():
        return {}
    content = path.read_bytes()
    if content.startswith(b"#!"):  # whose path may differ between hosts
        content = content.partition(b"\n")[2]
    digest = hashlib.blake2b(content, digest_size=4).hexdigest()
    return {"script": f"{path.name[:MOST_NAME]} {digest}"}
