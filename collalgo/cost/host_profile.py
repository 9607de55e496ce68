"""The profile of this host: the number of cores, and the costs of a step on them.

The profile is measured once per host, in 0.3 seconds, and kept in a file in the folder
of :mod:`collalgo.base.disk_cache`; ``collalgo calibrate`` measures it with more trials.
The file is JSON: ``format``, ``node``, ``processor``, ``trials`` (the number of
measurements of which each value is about the least), ``spread`` (that of each value, as
a part of it) and ``machine``, the attributes of :class:`HostProfile`. If other
processes keep the host too busy to be measured, typical values are used.

The modules for measurements are imported there: most processes load a file.
"""

import json
import platform
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from collalgo.base import disk_cache, output_files, owned
from collalgo.base.digest import hexadecimal
from collalgo.base.finalizers import Lock
from collalgo.base.threads import ThreadRefused
from collalgo.cost.host_trial import Trial, measure, spread
from collalgo.engine.transport.waiting import cores

#: The format of files, to be raised when the values change their meaning.
FORMAT = "machine/8"

KEPT = output_files.Format("a file of figures")

#: The number of measurements of ``collalgo calibrate``, and of a first use.
TRIALS, FIRST_TRIALS = 100, 5

#: The bytes of the last-level cache that ranks may count on. Systems report that of
#: all cores of a processor, many of which may belong to other guests.
USUAL_CACHE = 32 << 20

#: Typical values of a current host, and the most that is plausible: beyond these the
#: host was too busy to be measured.
USUAL = {
    "latency": (0.1e-6, 20e-6),
    "switch": (1.5e-6, 100e-6),
    "message": (0.05e-6, 10e-6),
    "copy": (0.1e-9, 10e-9),
    "reduce": (0.1e-9, 10e-9),
}

#: The number of attempts to measure a host that is busy, or whose values are unstable.
ATTEMPTS = 3

#: The spread of values that are stable.
STABLE = 0.1


class HostProfile(NamedTuple):
    """The costs of basic operations on a host.

    Attributes
    ----------
    latency : float
        Seconds from the send of a message to its receipt on another core.
    switch : float
        The same where sender and receiver take turns on one core.
    message : float
        Seconds of a core for each message that it sends or receives.
    copy, reduce : float
        Seconds of a core for each byte that it copies into or out of shared memory, or
        reduces there.
    cores : int
        The number of cores that the ranks may use.
    copy_far, reduce_far : float
        The same for arrays that exceed the caches; as within them if not measured.
    cache : int
        The bytes of the caches.
    exchange, fetch : float
        Seconds for each byte that two ranks send each other at once: through shared
        memory, and copied by the kernel out of the memory of the other process (as
        through shared memory if that is not permitted). 0 if not measured.
    """

    latency: float
    switch: float
    message: float
    copy: float
    reduce: float
    cores: int
    copy_far: float = 0.0
    reduce_far: float = 0.0
    cache: int = USUAL_CACHE
    exchange: float = 0.0
    fetch: float = 0.0

    def turns_in_vain(self, size: int) -> float:
        """Seconds that an exchange costs a core for each of ``size`` ranks.

        Before the messages of a rank have arrived, all ranks of its core find out in
        turn that theirs have not.
        """
        return self.switch * max(size / self.cores - 1, 0.0)

    def settings(self) -> list[float]:
        """The profile as numbers, for the other ranks of a world."""
        return [float(value) for value in self]

    @classmethod
    def of_settings(cls, numbers: Sequence[float]) -> "HostProfile":
        """The inverse of :meth:`settings`; numbers beyond it are ignored."""
        latency, switch, message, copy, reduce, count, *others = numbers[:11]
        copy_far, reduce_far, cache, exchange, fetch = others
        return cls(
            latency=latency,
            switch=switch,
            message=message,
            copy=copy,
            reduce=reduce,
            cores=int(count),
            copy_far=copy_far,
            reduce_far=reduce_far,
            cache=int(cache),
            exchange=exchange,
            fetch=fetch,
        )


def host_profile() -> HostProfile:
    """The profile of this host, from the cache or measured now (in 0.3 s).

    All threads get the same: ranks with different profiles would choose differently.
    """
    with _one_at_a_time:
        return known_profile()


_one_at_a_time = Lock()


@cache
def known_profile() -> HostProfile:
    """Load the profile, or measure and cache it; once in a process."""
    return kept_profile() or (_agreed[-1] if _agreed else calibrate(FIRST_TRIALS))


#: The profile that another rank of this host has sent, once one has.
_agreed: list[HostProfile] = []


def agree_on_profile(profile: HostProfile) -> None:
    """Take the profile that another rank of this host has, if none can be loaded.

    A host that is too busy has no file, and each rank would measure it again.
    """
    _agreed[:] = [profile]


def kept_profile() -> HostProfile | None:
    """The cached profile of this host, or None."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return HostProfile(**_kept()["machine"])
    return None


def kept_spread() -> dict[str, float]:
    """The :func:`.spread` of each value of the cached profile; empty without one."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return {str(name): float(part) for name, part in _kept()["spread"].items()}
    return {}


def _kept() -> dict[str, Any]:
    """The document in the file of the profile."""
    known: dict[str, Any] = json.loads(profile_file().read_text())
    if known["format"] != FORMAT:
        raise ValueError("a file of another version")
    return known


def calibrate(trials: int = TRIALS) -> HostProfile:
    """Measure this host a number of times, and cache the best values.

    Running processes keep the profile that they have. For a host that is too busy,
    typical values are used and not cached.
    """
    from logging import getLogger

    from collalgo.cost.calibration import per_byte

    done, is_busy = _measured(trials)
    figures: dict[str, Any] = Trial.best(done).figures() if done else {}
    if is_busy:
        figures |= {name: usual for name, (usual, _) in USUAL.items()}
        figures |= {"exchange": 0.0, "fetch": 0.0}
    copy_far, reduce_far = per_byte(USUAL_CACHE)
    beyond = {"copy_far": copy_far, "reduce_far": reduce_far, "cache": USUAL_CACHE}
    profile = HostProfile(**{**figures, **beyond, "cores": cores()})
    if is_busy:
        getLogger("collalgo").info(
            "this host is too busy to be measured, or refuses threads; using typical "
            "values"
        )
    else:
        _keep(profile, done)
    known_profile.cache_clear()
    return profile


def _measured(trials: int) -> tuple[list[Trial], bool]:
    """Some measurements, and whether the host was too busy for them.

    Measures again while it is busy, or while the halves of them differ. Without any if
    the system refuses the threads.
    """
    done: list[Trial] = []
    for _ in range(ATTEMPTS):
        try:
            done += [measure() for _ in range(trials)]
        except ThreadRefused:
            return [], True
        figures = Trial.best(done).figures()
        is_busy = any(figures[name] > most for name, (_, most) in USUAL.items())
        if not is_busy and max(spread(done).values()) <= STABLE:
            break
    return done, is_busy


def _keep(profile: HostProfile, trials: Sequence[Trial]) -> None:
    known = {
        "format": FORMAT,
        "node": platform.node(),
        "processor": _processor(),
        "trials": len(trials),
        "spread": spread(trials),
        "machine": profile._asdict(),
    }
    with disk_cache.reporting():
        path = profile_file()
        owned.make_folder(path.parent)
        # Its name is a digest, and what it holds can be measured again.
        output_files.write(path, json.dumps(known, indent=1), KEPT, force=True)


def profile_file() -> Path:
    """The file of the cached profile of this host."""
    what = f"{platform.node()} {platform.machine()} {cores()} {_processor()}"
    return disk_cache.folder() / f"{hexadecimal(what, 16)}.json"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line
    return platform.processor()
