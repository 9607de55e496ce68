"""What this machine can do: how many cores we have, and what a step costs on them.

The figures are measured once per machine, in 0.3 seconds, and kept in a file of
the user's cache directory; ``collalgo calibrate`` measures them with more patience. The
file is JSON: ``format``, ``node``, ``processor``, ``trials`` (how many measurements
each figure is the median of) and ``machine``, the attributes of :class:`Machine`. Where
other processes keep the machine too busy to be measured, usual figures are taken.
"""

import hashlib
import json
import logging
import os
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from threading import Lock

from collalgo.base import output_files
from collalgo.cost.calibration import per_byte, round_trips, swap
from collalgo.engine.transport.waiting import cores

#: What files say that they are, to be raised when the figures change their meaning.
FORMAT = "machine/7"

KEPT = output_files.of_json(
    "a file of figures", lambda known: known["format"].startswith("machine/")
)

#: How many measurements ``collalgo calibrate`` makes, and who finds none at first.
TRIALS, FIRST_TRIALS = 100, 5

#: Bytes of the last level of cache that ranks may count on. Systems tell that of all
#: cores of a processor, many of which are those of other guests.
USUAL_CACHE = 32 << 20

#: How many tokens at once show what one message more costs.
TOKENS = 5

#: What the figures are on a machine of today, and what they are nowhere: then the
#: machine was too busy with something else to be measured.
USUAL = {
    "latency": (0.1e-6, 20e-6),
    "switch": (1.5e-6, 100e-6),
    "message": (0.05e-6, 10e-6),
    "copy": (0.1e-9, 10e-9),
    "reduce": (0.1e-9, 10e-9),
}

#: How often a busy machine is measured before that is given up.
ATTEMPTS = 3

_LOG = logging.getLogger("collalgo")


@dataclass(frozen=True)
class HostProfile:
    """The price list of a machine.

    Attributes
    ----------
    latency : float
        From the send of a message to its receipt on another core, in seconds.
    switch : float
        The same where sender and receiver take turns on one core.
    message : float
        Work of a core for each message, sent or received, in seconds.
    copy, reduce : float
        Work of a core for each byte that it puts into shared memory for another or
        takes from there, or combines with its own there, in seconds.
    cores : int
        How many cores the ranks may use.
    copy_far, reduce_far : float
        The work for each byte where the arrays do not fit into the caches; no more
        than within them unless measured.
    cache : int
        Bytes that the caches hold.
    exchange, fetch : float
        Seconds for each byte that two ranks send each other at once: through shared
        memory, and where the kernel copies it out of the memory of the other process
        (the same as through shared memory if it may not). 0 if not measured.
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

    def settings(self) -> list[float]:
        """The figures as numbers, for the other ranks of a world."""
        return [float(value) for value in asdict(self).values()]

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
    """The figures of this machine, from the cache or measured now (in 0.3 s).

    All threads get the same: ranks with different figures would choose differently.
    """
    with _one_at_a_time:
        return known_figures()


_one_at_a_time = Lock()


@cache
def known_figures() -> HostProfile:
    """Look the figures up, or measure and keep them; once in a process."""
    return kept_figures() or calibrate(FIRST_TRIALS)


def kept_figures() -> HostProfile | None:
    """The figures of the file, if there is one of this machine."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        known = json.loads(figures_file().read_text())
        if known["format"] == FORMAT:
            return HostProfile(**known["machine"])
    return None


def calibrate(trials: int = TRIALS) -> HostProfile:
    """Measure the figures so many times, and keep the medians for this machine.

    Processes that run go on with the figures that they have. Of a machine that is too
    busy the usual figures are taken, and not kept.
    """
    for _ in range(ATTEMPTS):
        measured = [asdict(measure()) for _ in range(trials)]
        medians = {name: median(one[name] for one in measured) for name in measured[0]}
        is_busy = any(medians[name] > most for name, (_, most) in USUAL.items())
        if not is_busy:
            break
    if is_busy:
        medians |= {name: usual for name, (usual, _) in USUAL.items()}
        medians |= {"exchange": 0.0, "fetch": 0.0}
    copy_far, reduce_far = per_byte(USUAL_CACHE)
    beyond = {"copy_far": copy_far, "reduce_far": reduce_far, "cache": USUAL_CACHE}
    machine = HostProfile(**{**medians, **beyond, "cores": cores()})
    if is_busy:
        _LOG.info("this machine is too busy to be measured: usual figures are taken")
    else:
        _keep(machine, trials)
    known_figures.cache_clear()
    return machine


def _keep(machine: HostProfile, trials: int) -> None:
    known = {
        "format": FORMAT,
        "node": platform.node(),
        "processor": _processor(),
        "trials": trials,
        "machine": asdict(machine),
    }
    with suppress(OSError):
        path = figures_file()
        path.parent.mkdir(parents=True, exist_ok=True)
        output_files.write(path, json.dumps(known, indent=1), KEPT)


def figures_file() -> Path:
    """Where the figures of this machine are kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    what = f"{platform.node()} {platform.machine()} {cores()} {_processor()}"
    return root / "collalgo" / f"{hashlib.sha256(what.encode()).hexdigest()[:16]}.json"


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line
    return platform.processor()


def measure() -> HostProfile:
    """Measure the figures of this machine within its caches."""
    latency = round_trips(1, 2000)
    crowded = round_trips(TOKENS, 500)
    exchange = swap(fetched=False)
    copy, reduce = per_byte(1 << 20)
    # A byte of another core's takes longer than one of its own: in a swap each of two
    # ranks copies what it sends, and what it is sent.
    handed = max(exchange * min(cores(), 2) / 4, copy)
    return HostProfile(
        latency=latency,
        switch=round_trips(1, 200, same_core=True),
        message=max(crowded - latency, 0.0) / (2 * (TOKENS - 1)),
        copy=handed,
        reduce=reduce + handed - copy,
        cores=cores(),
        exchange=exchange,
        fetch=swap(fetched=True),
    )
