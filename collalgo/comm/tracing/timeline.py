"""A trace of the calls of all ranks, for Perfetto or ``chrome://tracing``."""

import json
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from collalgo._kernels.comm.step_log import StepLog
from collalgo.base import chrome_trace, output_files
from collalgo.base.chrome_trace import Event
from collalgo.base.units import human
from collalgo.comm import current
from collalgo.comm.current import runner_of
from collalgo.comm.tracing.call_prices import add_prices
from collalgo.comm.tracing.dump import named_records
from collalgo.comm.tracing.track import Track, with_zeros
from collalgo.comm.tracing.view import Trace
from collalgo.comm.types import Communicator
from collalgo.errors import OutputError

if TYPE_CHECKING:
    import mpi4py.MPI

    from collalgo.comm.runner import Runner
    from collalgo.engine.plan.rows import Plan

#: The call that errors name.
CALL = "trace"

#: The most calls and steps of a rank in a trace.
CALLS, STEPS = 1 << 16, 1 << 19


@contextmanager
def trace(
    path: str | Path,
    comm: "Communicator | mpi4py.MPI.Comm | None" = None,
    *,
    force: bool = False,
) -> Iterator[Trace]:
    """Trace the calls of a communicator in a ``with`` block, on all its ranks.

    Parameters
    ----------
    path
        The file that rank 0 writes, for Perfetto or ``chrome://tracing``: a track for
        each rank with its calls and their steps, and an arrow for each message. A
        call has its price and its bound in seconds, where they are known, and the
        likely reason if it took over twice its price.
    comm
        The communicator; by default the world of :func:`collalgo.init` or, without
        one, that of torch.
    force
        Overwrite a file that is not a trace of collalgo.

    Yields
    ------
    Trace
        The trace, which notebooks show as a timeline once rank 0 has written it.

    Raises
    ------
    OutputError
        On all ranks, before the block, if rank 0 must not overwrite the file.

    Warns
    -----
    UserWarning
        On rank 0, if no call was made on the communicator.

    Notes
    -----
    The clocks of several hosts are aligned at the beginning of the block. At most 65536
    calls and 524288 steps of each rank are traced; the trace says how many are missing.
    """
    runner = _runner(comm)
    _refuse(path, runner, force)
    log = StepLog(runner, CALLS, STEPS)
    try:
        runner.exchange_as_call(np.zeros(1, np.uint8), CALL)
        start, before = time.monotonic_ns(), runner.recorder.count
        yield Trace(path)
    finally:
        runner.progress.drain()
        steps, lost = log.end()
    text = json.dumps(_track(runner, start, before, steps, lost)).encode()
    everyone = runner.exchange_bytes(text, CALL, "gather")
    if everyone:
        tracks = [Track(*json.loads(part)) for part in everyone]
        add_prices(tracks, runner.programs.pricer)
        _write(path, tracks, runner.label, force)


def _write(path: str | Path, tracks: list[Track], label: str, force: bool) -> None:
    """Write the calls of all ranks, and warn if they have made no calls."""
    if not any(track.calls for track in tracks):
        warnings.warn(
            f"no call was made on communicator {label}, so that the trace "
            f"{path} is empty; pass the communicator of the calls",
            stacklevel=4,
        )
    found = json.dumps(chrome_trace.document(events(tracks)))
    output_files.write(path, found, chrome_trace.TRACE, force=force)


def _runner(comm: "Communicator | mpi4py.MPI.Comm | None") -> "Runner":
    """The runner whose calls are traced."""
    own = current.of_thread.world or current.of_process.world
    foreign = current.of_process.foreign
    found = runner_of(foreign if comm is None and own is None else comm)
    return cast("Runner", found)


def _refuse(path: str | Path, runner: "Runner", force: bool) -> None:
    """Check on rank 0 that the file may be written, and raise on every rank if not.

    Raises
    ------
    OutputError
        If rank 0 must not overwrite the file.
    """
    refusal = ""
    if runner.rank == 0:
        try:
            output_files.check(path, chrome_trace.TRACE, force=force)
        except OutputError as error:
            refusal = str(error)
    refusal = runner.exchange_bytes(refusal.encode(), CALL)[0].decode()
    if refusal:
        raise OutputError(refusal, rank=runner.rank, collective=CALL)


def _track(
    runner: "Runner",
    start: int,
    before: int,
    steps: list[tuple[int, int, int, int, int]],
    lost: int,
) -> Track:
    calls = [r for r in named_records(runner.recorder) if r["sequence"] > before]
    numbers = [call["sequence"] for call in calls]
    plans = {number: runner.recorder.plan(number) for number in numbers}
    found = [
        {
            "call": call,
            "slice": part,
            "step": step,
            "begun": begun,
            "ended": ended,
            **_messages(plans[call], step, runner.size),
        }
        for call, part, step, begun, ended in steps
        if call in plans
    ]
    return Track(start, runner.hosts[runner.rank], calls, found, lost)


def _messages(plan: "Plan", step: int, size: int) -> dict[str, Any]:
    """The messages of a step: peer, lane and bytes of each."""
    first, middle, end = plan.steps[step].tolist()

    def of(rows: range) -> list[tuple[int, int, int]]:
        found: list[tuple[int, int, int]] = []
        for row in rows:
            begin, stop, channel, last = plan.messages[row].tolist()[:4]
            nbytes = int(plan.pieces[begin:stop, 1].sum())
            channels = plan.channels[channel:last].ravel().tolist()
            found += [(number % size, number // size, nbytes) for number in channels]
        return found

    return {"sent": of(range(first, middle)), "received": of(range(middle, end))}


def events(tracks: list[Track]) -> Iterator[Event]:
    """The events of a trace; times in microseconds since its beginning."""
    arrows = _Arrows()
    for rank, (track, zero) in enumerate(with_zeros(tracks)):
        missing = f", {track.lost} steps missing" * bool(track.lost)
        yield chrome_trace.title(rank, f"rank {rank}{missing}")
        for call in track.calls:
            if call["ended"] is not None:
                name = f"{call['collective']} ({call['algorithm']})"
                name += f", {call['name']}" if call.get("name") else ""
                yield chrome_trace.span(rank, name, *_times(zero, call), call)
        for step in track.steps:
            name, about = f"step {step['step']}", {"slice": step["slice"]}
            yield chrome_trace.span(rank, name, *_times(zero, step), about)
            yield from arrows.of(rank, zero, step)


def _times(zero: int, what: dict[str, Any]) -> tuple[float, float]:
    """The begin and the end of a call or a step, in microseconds."""
    return (what["begun"] - zero) / 1e3, (what["ended"] - zero) / 1e3


class _Arrows:
    """An arrow for each message, from the sending step to the receiving step.

    Messages between two ranks on a lane are received in the order of sending.
    """

    def __init__(self) -> None:
        self._counts: dict[tuple[Any, ...], int] = defaultdict(int)
        self._numbers: dict[tuple[Any, ...], int] = {}

    def of(self, rank: int, zero: int, step: dict[str, Any]) -> Iterator[Event]:
        """The ends of arrows in a step of a rank."""
        begun, ended = _times(zero, step)
        for end, messages, when in (
            (chrome_trace.tail, step["sent"], begun),
            (chrome_trace.head, step["received"], ended),
        ):
            for peer, lane, nbytes in messages:
                route = (rank, peer) if messages is step["sent"] else (peer, rank)
                place = (end, step["call"], lane, *route)
                self._counts[place] += 1
                key = (*place[1:], self._counts[place])
                number = self._numbers.setdefault(key, len(self._numbers))
                yield end(rank, number, human(nbytes), when)
