"""Ranks of this host: start a command on each, and supervise them until they end."""

import os
import shlex
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from collalgo.base.cpu_list import shown
from collalgo.base.signal_handlers import catches
from collalgo.engine.transport.waiting import cores
from collalgo.launch import environment, output
from collalgo.launch.binding import Cpus, cpus_of_ranks
from collalgo.launch.child import (
    Child,
    Deadline,
    as_completed,
    close_children,
    signal_children,
)
from collalgo.launch.error_records import of_this_launcher
from collalgo.launch.hosts import positions_by_host
from collalgo.launch.options import LaunchOptions
from collalgo.launch.output import Sinks
from collalgo.launch.placement import Placement, PlannedRank
from collalgo.launch.process import (
    Process,
    exit_code,
    exit_reason,
    processes,
    send_signal,
)
from collalgo.launch.session_guard import SessionGuard
from collalgo.launch.signals import FORWARDED, signals_forwarded, signals_raise
from collalgo.launch.start_failure import start_failure
from collalgo.launch.supervision import (
    OF_COMMAND,
    PEER_FAILED,
    STOP_SECONDS,
    RankFailure,
    Supervision,
    run_to_end,
)

#: The last line of the traceback of a rank that failed only because another did.
OF_A_VICTIM = ("collalgo.errors.PeerFailed", "collalgo.errors.CommunicatorRevoked")


class Scope(Enum):
    """The ranks of a job that a :class:`LocalLaunch` runs.

    Rank 0 of a whole job reads the standard input of the launcher. A part of a job may
    fail only because of a rank elsewhere: then it reports nothing and its exit code is
    :data:`~collalgo.launch.supervision.PEER_FAILED`.
    """

    WHOLE_JOB = "all of them"
    ONE_HOST = "those of this host; others run elsewhere"


class RankSpec(NamedTuple):
    """A rank to be started, its environment, and its binding."""

    rank: int
    environment: dict[str, str]
    cpus: Cpus | None = None


class Rank(Child):
    """The process of one rank."""

    def __init__(
        self, spec: RankSpec, command: Sequence[str], sinks: Sinks, stdin: int | None
    ):
        self.rank = spec.rank
        self._key, where = of_this_launcher().next()
        variables = {**spec.environment, **where}
        super().__init__(command, sinks, self.rank, stdin, variables, spec.cpus)

    def traceback(self) -> list[str]:
        """The recorded error, or the last traceback or lines of standard error."""
        if recorded := of_this_launcher().traceback(self._key):
            return list(recorded)
        lines = [line.decode(errors="replace") for line in self.streams[1].last_lines]
        starts = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
        return lines[starts[-1] :] if starts else lines[-10:]

    def is_victim(self) -> bool:
        """Whether the rank failed only because of the failure of another."""
        return self.ended_by(OF_A_VICTIM)

    def ended_by(self, errors: str | tuple[str, ...]) -> bool:
        """Whether the last line of its traceback begins with one of some names."""
        lines = self.traceback()
        return bool(lines) and lines[-1].startswith(errors)

    def failure(self) -> RankFailure:
        """The failure of the process."""
        reason = f"rank {self.rank} {exit_reason(self.returncode or 0)}"
        return RankFailure(self.rank, reason, self.traceback())


@dataclass(frozen=True)
class LocalLaunch:
    """The plan to run a command on ranks of this host.

    Attributes
    ----------
    command : sequence of str
        The command line of each rank.
    specs : sequence of RankSpec
        The ranks.
    logs : Path or None
        Folder for files with the output of each rank.
    scope : Scope
        Whether they are all ranks of the job.
    timestamp : bool
        Whether each line of output begins with the time.
    supervision : Supervision
        The reaction to the failure of a rank, and the destination of output.
    """

    command: Sequence[str]
    specs: Sequence[RankSpec]
    logs: Path | None = None
    scope: Scope = Scope.WHOLE_JOB
    timestamp: bool = False
    supervision: Supervision = OF_COMMAND

    @classmethod
    def of_job(
        cls,
        options: LaunchOptions,
        size: int,
        supervision: Supervision = OF_COMMAND,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> "LocalLaunch":
        """The plan of a job of ``size`` ranks, all on this host.

        ``variables`` are further ones of all ranks.
        """
        common = {
            **environment.thread_limit(size),
            **environment.inherited(),
            **environment.of_job("127.0.0.1", environment.free_port()),
            **variables,
        }
        cpus = cpus_of_ranks(options.binding, size)
        specs = [
            RankSpec(each.rank, common | environment.of_rank(each, options.dialect), at)
            for each, at in zip(positions_by_host([size]), cpus, strict=True)
        ]
        stamp = options.timestamp
        return cls(
            options.command, specs, options.logs, Scope.WHOLE_JOB, stamp, supervision
        )

    def placement(self) -> Placement:
        """The placement of the ranks."""
        size = len(self.specs)
        ranks = [
            PlannedRank(
                position,
                socket.gethostname(),
                shown(spec.cpus) if spec.cpus else f"any of {cores()}",
                "none, by shared memory",
            )
            for position, spec in zip(
                positions_by_host([size]), self.specs, strict=True
            )
        ]
        return Placement(ranks, [f"each rank: {shlex.join(self.command)}"])

    def run(self) -> int:
        """Run the ranks to their end: the exit code of the first that fails, or 0.

        When one fails, the others are stopped and its traceback is shown again.
        """
        sinks, ranks = self._sinks(), list[Rank]()
        stops = self.scope is Scope.WHOLE_JOB
        with (
            closing(SessionGuard()) as guard,
            signals_raise(),
            signals_forwarded(partial(_forward, ranks), stops=stops),
        ):
            try:
                work = partial(self._run, ranks, sinks, guard)
                return run_to_end(work, partial(stop, ranks), sinks)
            except OSError as error:
                reason = start_failure(len(ranks), len(self.specs), error)
                self.supervision.tell([RankFailure(len(ranks), reason)], False)
                return 1
            finally:
                close_children(ranks, killed=guard.close)

    def _sinks(self) -> Sinks:
        """The destinations of output."""
        return output.sinks(
            self.logs,
            timestamp=self.timestamp,
            by_python=self.supervision.by_python,
            is_part=self.scope is Scope.ONE_HOST,
        )

    def _run(self, ranks: list[Rank], sinks: Sinks, guard: SessionGuard) -> int:
        """Start the ranks, into the list, and supervise them."""
        for spec in self.specs:
            ranks.append(Rank(spec, self.command, sinks, self._stdin(spec)))
            guard.add(ranks[-1].process.pid)
        return self._supervise(ranks, sinks)

    def _supervise(self, ranks: list[Rank], sinks: Sinks) -> int:
        """Forward the output until all ranks have ended, or one has failed."""
        failed: list[Rank] = []
        deadline = Deadline()
        for ended in as_completed(ranks, deadline):
            if ended.returncode:
                deadline.at_most(self.supervision.settle)
                failed.append(ended)
        if not failed:
            return 0
        stop(ranks, signal.SIGTERM)
        failed.sort(key=Rank.is_victim)  # the causes first
        is_part = self.scope is Scope.ONE_HOST
        if is_part and failed[0].is_victim():
            return PEER_FAILED
        sinks.err.end_line()
        failures = [rank.failure() for rank in failed]
        self.supervision.tell(failures, is_part or len(ranks) > 1)
        return exit_code(failed[0].returncode or 0)

    def _stdin(self, spec: RankSpec) -> int | None:
        """Standard input of a rank: that of the launcher (None), or none."""
        inherits = spec.rank == 0 and self.scope is Scope.WHOLE_JOB
        return None if inherits else subprocess.DEVNULL


def stop(ranks: list[Rank], number: int) -> None:
    """Send the ranks a signal, then stronger ones, and forward the output meanwhile."""
    for each in (number, signal.SIGTERM, signal.SIGKILL):
        _signal(ranks, each)
        for _ in as_completed(ranks, Deadline(STOP_SECONDS)):
            pass
        if all(rank.ended for rank in ranks):
            return


def _send(ranks: list[Rank], number: int) -> None:
    """Send a signal to all running ranks."""
    signal_children([rank for rank in ranks if not rank.ended], number)


def _forward(ranks: list[Rank], number: int) -> None:
    """Send the ranks a signal that is meant for them.

    Of the processes of a rank only those get it that handle it: it would kill a shell
    that has started a script. If none does, the rank gets it.
    """
    if number not in FORWARDED:
        _send(ranks, number)
        return
    handling: dict[int, list[Process]] = {
        rank.process.pid: [] for rank in ranks if not rank.ended
    }
    for process in processes():
        with suppress(OSError):  # it has ended
            if process.session in handling and catches(process.number, number):
                handling[process.session].append(process)
    for leader, found in handling.items():
        for process in found:
            send_signal(process, number)
        if not found:
            os.kill(leader, number)  # which is not reaped yet


def _signal(ranks: list[Rank], number: int) -> None:
    """Send a signal to all running ranks, before any of them runs on.

    Otherwise the first ranks may end before the last ones have the signal, and these
    would report a failed peer.
    """
    for each in (signal.SIGSTOP, number, signal.SIGCONT):
        _send(ranks, each)
