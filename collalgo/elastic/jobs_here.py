"""The elastic jobs of which this host runs members, as the kernel shows them."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from collalgo.base import proc
from collalgo.base.environment import JOB, RENDEZVOUS, SECRET
from collalgo.base.proc import ancestors
from collalgo.errors import VariableError


class JobHere(NamedTuple):
    """A job, as a member of this host knows it.

    Attributes
    ----------
    url : str
        The URL of its rendezvous.
    job : str
        Its id.
    secret : bytes or None
        Its secret.
    process : int
        A process of the job on this host.
    """

    url: str
    job: str
    secret: bytes | None
    process: int = 0


def jobs_here(ancestor: int | None = None) -> list[JobHere]:
    """The jobs with members on this host that are processes of this user.

    Parameters
    ----------
    ancestor
        Only of this process and those that it has started, directly or not. It is a
        launcher or a rank, not what has started both the job and this process.
    """
    if ancestor is not None and ancestor in ancestors(os.getppid()):
        jobs = [each for each in _jobs() if each.process == ancestor]
    else:
        jobs = list(_jobs())
    found: dict[tuple[object, ...], JobHere] = {}
    for each in sorted(jobs, key=lambda each: each.process):
        if ancestor is None or ancestor in ancestors(each.process):
            found.setdefault(each[:3], each)
    return sorted(found.values(), key=lambda each: (each.url, each.job))


def _jobs() -> Iterator[JobHere]:
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal():
            continue
        with suppress(OSError, VariableError):
            if entry.stat().st_uid != os.geteuid():  # root must not follow its paths
                continue
            known = proc.environment(int(entry.name))
            if url := RENDEZVOUS.given(known):
                secret = SECRET.value(known)
                yield JobHere(url, JOB.given(known), secret, int(entry.name))
