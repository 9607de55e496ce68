"""The measurements of a host profile."""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from threading import Thread
from time import perf_counter
from typing import NamedTuple

import numpy as np

from collalgo._kernels.engine.program import Program
from collalgo.algorithms import direct, dissemination
from collalgo.base.threads import ThreadRefused, start
from collalgo.engine.call import Call
from collalgo.engine.plan.copying import Copying
from collalgo.engine.plan.layout import Layout
from collalgo.engine.plan.template import TemplateKey
from collalgo.engine.reduction import reduction
from collalgo.engine.transport import thread
from collalgo.engine.transport.waiting import SHARING
from collalgo.schedule import Group, Steps, together

#: The bytes of a swap between two threads, which compares the copy methods.
SWAPPED = 1 << 18

#: The number of swaps; in the first ones neither pages nor caches are warm.
SWAPS = 60


class Turn(NamedTuple):
    """The timed work of one of two threads, and its untimed preparation."""

    prepare: Callable[[], object]
    take: Callable[[], object]


def per_byte(nbytes: int) -> tuple[float, float]:
    """Seconds per byte to copy and to reduce arrays of ``nbytes``."""
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


def round_trips(
    lanes: int, rounds: int, *, cores: tuple[int, int] | None = None, trials: int = 3
) -> float:
    """Seconds per step in which two threads exchange a token on each lane.

    Parameters
    ----------
    lanes, rounds
        The number of tokens, and of steps in a trial.
    cores
        Pins the threads to these of the cores that they may use, by number.
    trials
        The number of trials, of which the fastest counts.
    """
    shares_core = cores is not None and cores[0] == cores[1]
    transports = thread.world(2, SHARING if shares_core else None)

    def turn(rank: int) -> Turn:
        if cores is not None:
            _stay(cores[rank])
        program = _tokens(rank, lanes)
        return Turn(lambda: None, lambda: program.repeat(transports[rank], rounds))

    return _of_two(turn, trials) / rounds


def _tokens(rank: int, lanes: int) -> Program:
    """The program of one of two ranks that exchange a token on each lane."""

    def tokens(group: Group) -> Steps:
        return together(*(dissemination.barrier(group) for _ in range(lanes)))

    template = TemplateKey("barrier", tokens, rank, 2).template()
    program = Program(template, None, 0, (0, 0, 0, 0, 0, 0, "tokens"))
    program.fill_layout(Layout(0, 1, 2))
    return program


def swap(*, fetched: bool) -> float:
    """Seconds for each byte that two threads send each other at once.

    Both write their data just before, as programs do; otherwise the receiver would find
    a copy from the last swap in its own cache.

    Parameters
    ----------
    fetched
        Whether the kernel copies, where permitted, instead of both threads.
    """
    transports = thread.world(2)
    for transport in transports:
        transport.disable_recycled_slots()  # as with more ranks or longer messages

    def turn(rank: int) -> Turn:
        _stay(-rank)
        program, gate = _exchange(rank, fetched), _tokens(rank, 1)
        mine, everyone, nothing = (
            np.zeros(size, np.uint8) for size in (SWAPPED, 2 * SWAPPED, 0)
        )

        def write() -> None:
            mine.fill(rank)
            gate.repeat(transports[rank], 1)

        def exchange() -> None:
            program.run(transports[rank], mine, everyone, nothing, -1)

        return Turn(write, exchange)

    return _of_two(turn, SWAPS) / SWAPPED


def _exchange(rank: int, fetched: bool) -> Program:
    """The program of one of two ranks that swap their data."""
    call = Call("allgather", np.dtype(np.uint8), SWAPPED)
    template = TemplateKey("allgather", direct.allgather, rank, 2).template()
    record = (0, 0, 0, 0, 0, 0, "swap")
    copying = Copying(fetched, stays_cached=False)
    program = Program(template, None, 0, record, copying)
    program.fill_layout(call.layout(2))
    return program


def _stay(number: int) -> None:
    """Pin this thread to a core that it may use, by its number: 0 first, -1 last.

    Where the system refuses that, it stays where it is, as the ranks do.
    """
    with suppress(OSError):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number]})


def _start_together(threads: Sequence[Thread], all_run: "Future[bool]") -> None:
    """Start threads, and tell them whether all of them run."""
    try:
        for one in threads:
            start(one)
        all_run.set_result(True)
    except ThreadRefused:
        all_run.set_result(False)
        raise


def _of_two(turn_of: Callable[[int], Turn], trials: int) -> float:
    """The least seconds of a turn of two threads."""
    times = [[0.0, 0.0] for _ in range(trials)]

    both: Future[bool] = Future()

    def run(rank: int) -> None:
        if not both.result():
            return
        turn = turn_of(rank)
        for trial in times:
            turn.prepare()
            start = perf_counter()
            turn.take()
            trial[rank] = perf_counter() - start

    threads = [Thread(target=run, args=(rank,), daemon=True) for rank in range(2)]
    _start_together(threads, both)
    for one in threads:
        one.join()
    return min(max(trial) for trial in times)
