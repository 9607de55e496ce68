"""What this machine can do: how many cores we have, and what a step costs on them.

The figures are measured once per machine, in a tenth of a second, and kept in a file of
the user's cache directory; ``collalgo calibrate`` measures them with more patience. The
file is JSON: ``format``, ``node``, ``processor``, ``trials`` (how many measurements
each figure is the median of) and ``machine``, the attributes of :class:`Machine`.
"""

import hashlib
import json
import os
import platform
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median
from threading import Lock, Thread
from time import perf_counter

import numpy as np

from collalgo._kernels.engine import Program
from collalgo.algorithms import direct, dissemination
from collalgo.call import Call
from collalgo.layout import Layout, Region
from collalgo.plan import Averaging, Walk
from collalgo.reduction import reduction
from collalgo.schedule import Group, Steps, together, trace
from collalgo.transport import thread
from collalgo.transport.waiting import SHARING, cores

#: What files say that they are, to be raised when the figures change their meaning.
FORMAT = "machine/4"

#: How many measurements ``collalgo calibrate`` makes.
TRIALS = 100

#: Bytes of the last level of cache that ranks may count on. Systems tell that of all
#: cores of a processor, many of which are those of other guests.
USUAL_CACHE = 32 << 20

#: How many tokens at once show what one message more costs.
TOKENS = 5

#: Bytes that two threads send each other at once, to see which way is the faster.
SWAPPED = 1 << 18


@dataclass(frozen=True)
class Machine:
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
        Work of a core for each byte copied, or combined with another, in seconds.
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
    def of_settings(cls, numbers: Sequence[float]) -> "Machine":
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


def this_machine() -> Machine:
    """The figures of this machine, from the cache or measured now (in about 50 ms).

    All threads get the same: ranks with different figures would choose differently.
    """
    with _one_at_a_time:
        return known_figures()


_one_at_a_time = Lock()


@cache
def known_figures() -> Machine:
    """Look the figures up, or measure and keep them; once in a process."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        known = json.loads(figures_file().read_text())
        if known["format"] == FORMAT:
            return Machine(**known["machine"])
    return calibrate(1)


def calibrate(trials: int = TRIALS) -> Machine:
    """Measure the figures so many times, and keep the medians for this machine.

    Processes that run go on with the figures that they have.
    """
    measured = [asdict(measure()) for _ in range(trials)]
    medians = {name: median(one[name] for one in measured) for name in measured[0]}
    copy_far, reduce_far = _per_byte(USUAL_CACHE)
    beyond = {"copy_far": copy_far, "reduce_far": reduce_far, "cache": USUAL_CACHE}
    machine = Machine(**{**medians, **beyond, "cores": cores()})
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
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(known, indent=1))
        temporary.replace(path)
    known_figures.cache_clear()
    return machine


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


def measure() -> Machine:
    """Measure the figures of this machine within its caches."""
    latency = _round_trips(1, 2000)
    crowded = _round_trips(TOKENS, 500)
    copy, reduce = _per_byte(1 << 20)
    return Machine(
        latency=latency,
        switch=_round_trips(1, 200, same_core=True),
        message=max(crowded - latency, 0.0) / (2 * (TOKENS - 1)),
        copy=copy,
        reduce=reduce,
        cores=cores(),
        exchange=_swap(fetched=False),
        fetch=_swap(fetched=True),
    )


def _per_byte(nbytes: int) -> tuple[float, float]:
    """Seconds to copy and to combine a byte of arrays of so many."""
    source = np.ones(nbytes // 4, np.float32)
    target = np.ones_like(source)
    add = reduction(source.dtype, "sum")
    copy = _fastest(lambda: np.copyto(target, source))
    return copy / nbytes, _fastest(lambda: add(target, [source, target])) / nbytes


def _fastest(work: Callable[[], object]) -> float:
    times = []
    for _ in range(7):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def _round_trips(lanes: int, rounds: int, *, same_core: bool = False) -> float:
    """Seconds per step in which two threads exchange a token on each lane."""

    def tokens(group: Group) -> Steps:
        return together(*(dissemination.barrier(group) for _ in range(lanes)))

    nothing = Layout(0, 1, 2)
    transports = thread.world(2, SHARING if same_core else None)

    def turn(rank: int) -> Callable[[], object]:
        if same_core:
            _stay(0)
        walk = Walk(nothing, rank, 2, Region([]), Region([]))
        plan = walk.lower(trace(tokens, rank, 2), Averaging.NO)
        program = Program(plan, None, 0, (0, 0, 0, 0, 0, 0, "tokens"))
        return lambda: program.repeat(transports[rank], rounds)

    return _of_two(turn, 3) / rounds


def _swap(*, fetched: bool) -> float:
    """Seconds for each byte that two threads send each other at once.

    Parameters
    ----------
    fetched
        Whether the kernel copies it, where it may, instead of both threads.
    """
    call = Call("allgather", np.dtype(np.uint8), SWAPPED)
    layout = call.layout(2)
    transports = thread.world(2)

    def turn(rank: int) -> Callable[[], object]:
        _stay(-rank)
        walk = Walk(layout, rank, 2, *call.ends(layout, rank, 2))
        plan = walk.lower(trace(direct.allgather, rank, 2), Averaging.NO)
        program = Program(plan, None, 0, (0, 0, 0, 0, 0, 0, "swap"), fetched)
        mine, everyone, nothing = (
            np.zeros(size, np.uint8) for size in (SWAPPED, 2 * SWAPPED, 0)
        )
        return lambda: program.run(transports[rank], mine, everyone, nothing, -1)

    return _of_two(turn, 9) / SWAPPED


def _stay(number: int) -> None:
    """Let this thread stay on the first or the last of the cores that it may use."""
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})


def _of_two(turn: Callable[[int], Callable[[], object]], trials: int) -> float:
    """The least seconds of a turn that two threads take together."""
    times = [[0.0, 0.0] for _ in range(trials)]

    def run(rank: int) -> None:
        take = turn(rank)
        for trial in times:
            start = perf_counter()
            take()
            trial[rank] = perf_counter() - start

    threads = [Thread(target=run, args=(rank,), daemon=True) for rank in range(2)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    return min(max(trial) for trial in times)
