"""Start a command on ranks of this host, and see them through to the end."""

import math
import os
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from collalgo.launch import output
from collalgo.launch.output import Sinks, Stream
from collalgo.launch.process import die_with, exit_reason

#: Seconds to wait for others that fail at the same time, to find the first cause.
FAILURES_SETTLE = 0.3

#: Seconds that a rank has to obey a signal before the next, harder one.
PATIENCE = 5.0

#: The exit code where ranks failed only because those of another host had.
VICTIM = 76


class Asked(BaseException):
    """The launcher itself has been asked to stop."""

    def __init__(self, number: int):
        self.number = number


class Rank:
    """One rank of a job: its process group and its outputs.

    Parameters
    ----------
    order
        Which rank, and its environment.
    command
        What it runs.
    sinks
        Where its output goes.
    listens
        Whether it has the standard input of the launcher.
    """

    def __init__(
        self, order: "Order", command: Sequence[str], sinks: Sinks, *, listens: bool
    ):
        launcher = os.getpid()
        self.rank = order.rank
        self.ended = False
        self.process = subprocess.Popen(
            command,
            env=order.environment,
            stdin=None if listens else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=lambda: die_with(launcher),  # noqa: PLW1509 (no threads here)
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        prefix = f"[{self.rank}] ".encode()
        self.streams = [
            Stream(self.process.stdout, sinks.out, prefix),
            Stream(self.process.stderr, sinks.err, prefix),
        ]
        self.descriptor = os.pidfd_open(self.process.pid)

    def signal(self, number: int) -> None:
        """Send a signal to the process and to all it has started."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        """End what the rank has left behind and release the descriptors."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        for stream in self.streams:
            stream.pipe.close()
        os.close(self.descriptor)

    def traceback(self) -> list[str]:
        """The last traceback on standard error, or else the last lines of it."""
        lines = [line.decode(errors="replace") for line in self.streams[1].last_lines]
        starts = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
        return lines[starts[-1] :] if starts else lines[-10:]

    def is_victim(self) -> bool:
        """Whether the rank failed only because another one had."""
        lines = self.traceback()
        return bool(lines) and lines[-1].startswith("collalgo.errors.PeerFailed")


class Order(NamedTuple):
    """A rank that is to be started, and its environment."""

    rank: int
    environment: dict[str, str]


def run(command: Sequence[str], size: int, logs: Path | None = None) -> int:
    """Run a command on ``size`` ranks of this host: the exit code of the job.

    Each rank finds itself in ``RANK``, ``WORLD_SIZE``, ``LOCAL_RANK``,
    ``LOCAL_WORLD_SIZE``, ``MASTER_ADDR`` and ``MASTER_PORT``, as under torchrun. When
    one fails, the others are stopped and its traceback is shown again. The output of
    each is also kept in a file in ``logs``, if that is given.
    """
    common = {
        **os.environ,
        "COLLALGO_JOB": secrets.token_hex(16),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "PYTHONUNBUFFERED": "1",
    }
    orders = [
        Order(rank, {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(size)
    ]
    return run_ranks(command, orders, output.sinks(logs))


def run_ranks(
    command: Sequence[str],
    orders: Sequence[Order],
    sinks: Sinks,
    *,
    of_many: bool = False,
) -> int:
    """Run a command on some ranks: the exit code of the first that fails, or 0.

    Of ``of_many`` hosts, these ranks may fail only because one elsewhere has: then
    nothing is said of it, and the code is :data:`VICTIM`.
    """
    ranks: list[Rank] = []
    with signals_raise():
        try:
            for order in orders:
                listens = order.rank == 0 and not of_many
                ranks.append(Rank(order, command, sinks, listens=listens))
            return _supervise(ranks, of_many)
        except Asked as asked:
            with suppress(Asked):  # asked again: kill them at once
                _stop(ranks, asked.number)
            return 128 + asked.number
        except BrokenPipeError:  # nobody reads our output any more
            return 128 + signal.SIGPIPE
        finally:
            for one in ranks:
                one.close()


def _supervise(ranks: list[Rank], of_many: bool) -> int:
    """Pass on the output until all ranks have ended, or one has failed."""
    failed: list[Rank] = []
    deadline = Deadline()
    for ended in _ends(ranks, deadline):
        if ended.process.returncode:
            deadline.at_most(FAILURES_SETTLE)
            failed.append(ended)
    if not failed:
        return 0
    _stop(ranks, signal.SIGTERM)
    first = next((rank for rank in failed if not rank.is_victim()), failed[0])
    if of_many and first.is_victim():
        return VICTIM
    return _report(first, of_many or len(ranks) > 1)


class Deadline:
    """A time by which to be done; never, until something is said."""

    def __init__(self, seconds: float = math.inf):
        self._time = time.monotonic() + seconds

    def at_most(self, seconds: float) -> None:
        """Bring the time forward, unless it is nearer already."""
        self._time = min(self._time, time.monotonic() + seconds)

    def left(self) -> float | None:
        """Seconds to go, not below 0; None for ever."""
        left = self._time - time.monotonic()
        return None if math.isinf(left) else max(left, 0.0)


def _ends(ranks: list[Rank], deadline: Deadline) -> Iterator[Rank]:
    """Forward the output and yield each rank when it ends, until the deadline."""
    with selectors.DefaultSelector() as selector:
        running = [rank for rank in ranks if not rank.ended]
        for rank in running:
            selector.register(rank.descriptor, selectors.EVENT_READ, rank)
            for stream in rank.streams:
                selector.register(stream.pipe, selectors.EVENT_READ, stream)
        left = len(running)
        while left and deadline.left() != 0:
            for key, _ in selector.select(deadline.left()):
                if isinstance(key.data, Rank):
                    selector.unregister(key.fileobj)
                    key.data.process.wait()
                    for stream in key.data.streams:
                        stream.drain()
                    key.data.ended = True
                    left -= 1
                    yield key.data
                elif not key.data.forward():
                    selector.unregister(key.fileobj)


def _stop(ranks: list[Rank], number: int) -> None:
    """Ask the ranks to end, then make them; their output is passed on meanwhile."""
    for harder in (number, signal.SIGTERM, signal.SIGKILL):
        for rank in ranks:
            if not rank.ended:
                rank.signal(harder)
        for _ in _ends(ranks, Deadline(PATIENCE)):
            pass
        if all(rank.ended for rank in ranks):
            return


def _report(rank: Rank, has_others: bool) -> int:
    """Say on standard error which rank failed and how; its exit code."""
    code = rank.process.returncode
    others = " (the others were stopped)" if has_others else ""
    lines = [f"collalgo run: rank {rank.rank} {exit_reason(code)}{others}"]
    lines += [f"  {line}" for line in rank.traceback()]
    sys.stderr.write("\n".join(lines) + "\n")
    return code if code > 0 else 128 - code


def _free_port() -> int:
    """A port for other libraries that want one; collalgo itself uses none."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def signals_raise() -> Iterator[None]:
    """Turn Ctrl-C and a polite kill into an exception, once each."""

    def handle(number: int, _frame: FrameType | None) -> None:
        raise Asked(number)

    before = {
        number: signal.signal(number, handle)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
