"""Start a command on ranks of this host, and see them through to the end."""

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from collalgo.engine.transport.waiting import cores
from collalgo.launch import output
from collalgo.launch.child import Child, Deadline, ends
from collalgo.launch.output import Sinks
from collalgo.launch.process import exit_code, exit_reason

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


class Rank(Child):
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
        self.rank = order.rank
        prefix = f"[{self.rank}] ".encode()
        stdin = None if listens else subprocess.DEVNULL
        super().__init__(command, sinks, prefix, stdin, order.environment)

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
        **threads(size),
        **os.environ,
        "COLLALGO_JOB": secrets.token_hex(16),
        "WORLD_SIZE": str(size),
        "LOCAL_WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
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
    for ended in ends(ranks, deadline):
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


def _stop(ranks: list[Rank], number: int) -> None:
    """Ask the ranks to end, then make them; their output is passed on meanwhile."""
    for harder in (number, signal.SIGTERM, signal.SIGKILL):
        _signal(ranks, harder)
        for _ in ends(ranks, Deadline(PATIENCE)):
            pass
        if all(rank.ended for rank in ranks):
            return


def _signal(ranks: list[Rank], number: int) -> None:
    """Send a signal to all ranks that are left, before any of them runs on.

    Otherwise those that have it first may be gone before the last ones have it, which
    would then say that a rank has failed.
    """
    for each in (signal.SIGSTOP, number, signal.SIGCONT):
        for rank in ranks:
            if not rank.ended:
                rank.signal(each)


def _report(rank: Rank, has_others: bool) -> int:
    """Say on standard error which rank failed and how; its exit code."""
    code = rank.process.returncode
    others = " (the others were stopped)" if has_others else ""
    lines = [f"collalgo run: rank {rank.rank} {exit_reason(code)}{others}"]
    lines += [f"  {line}" for line in rank.traceback()]
    sys.stderr.write("\n".join(lines) + "\n")
    return exit_code(code)


def threads(ranks: int) -> dict[str, str]:
    """How many threads each of the ranks of this host may use to compute.

    With one for each core in every rank, as libraries have it, a product of matrices
    takes ten times as long.
    """
    return {"OMP_NUM_THREADS": str(max(1, cores() // ranks))}


def free_port() -> int:
    """A port for other libraries that want one; collalgo itself uses none."""
    with socket.socket() as probe:
        probe.bind(("", 0))
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
