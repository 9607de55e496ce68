"""Ranks of this host: start a command on each, and supervise them until they end."""

import shlex
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from types import MappingProxyType

from collalgo.base.cpu_list import shown
from collalgo.engine.transport.waiting import cores
from collalgo.launch import environment, output
from collalgo.launch.binding import cpus_of_ranks
from collalgo.launch.child import Deadline, as_completed
from collalgo.launch.hosts import positions_by_host
from collalgo.launch.options import LaunchOptions
from collalgo.launch.output import Sinks
from collalgo.launch.placement import NO_NICS, Placement, PlannedRank
from collalgo.launch.process import exit_code
from collalgo.launch.ranks import Rank, Ranks, RankSpec
from collalgo.launch.signals import signals_forwarded, signals_raise
from collalgo.launch.start_failure import StartFailure
from collalgo.launch.stopped import stopped_ranks_reported
from collalgo.launch.supervision import (
    OF_COMMAND,
    PEER_FAILED,
    RankFailure,
    Supervision,
    run_to_end,
)


class Scope(Enum):
    """The ranks of a job that a :class:`LocalLaunch` runs.

    Rank 0 of a whole job reads the standard input of the launcher. A part of a job may
    fail only because of a rank elsewhere: then it reports nothing and its exit code is
    :data:`~collalgo.launch.supervision.PEER_FAILED`.
    """

    WHOLE_JOB = "all of them"
    ONE_HOST = "those of this host; others run elsewhere"


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
                NO_NICS,
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
        is_whole = self.scope is Scope.WHOLE_JOB
        size = len(self.specs)
        ranks = Ranks(self.command, size, self._sinks(), has_input=is_whole)
        with (
            signals_raise(),
            signals_forwarded(ranks.forward, stops=is_whole),
            ExitStack() as held,
            closing(ranks),
        ):
            if is_whole:  # an agent's ranks are also stopped with the launcher
                held.enter_context(stopped_ranks_reported(ranks.running))
            try:
                work = partial(self._run, ranks, held)
                return run_to_end(work, ranks.stop, ranks.sinks)
            except StartFailure as error:
                failure = RankFailure(error.rank or 0, str(error))
                self.supervision.tell([failure], False)
                return 1

    def _sinks(self) -> Sinks:
        """The destinations of output."""
        return output.sinks(
            self.logs,
            timestamp=self.timestamp,
            by_python=self.supervision.by_python,
            is_part=self.scope is Scope.ONE_HOST,
        )

    def _run(self, ranks: Ranks, held: ExitStack) -> int:  # noqa: ARG002 (of others)
        """Start the ranks, and supervise them.

        ``held`` takes what is to be released once they have ended.
        """
        for spec in self.specs:
            ranks.start(spec)
        return self._supervise(ranks)

    def _supervise(self, ranks: Ranks) -> int:
        """Forward the output until all ranks have ended, or one has failed."""
        failed: list[Rank] = []
        deadline = Deadline()
        for ended in as_completed(ranks.all, deadline):
            if ended.returncode:
                deadline.at_most(self.supervision.settle)
                failed.append(ended)
            else:
                ended.note_end()
        if not failed:
            return 0
        ranks.stop(signal.SIGTERM)
        failed.sort(key=Rank.is_victim)  # the causes first
        is_part = self.scope is Scope.ONE_HOST
        if is_part and failed[0].is_victim():
            return PEER_FAILED
        ranks.sinks.err.end_line()
        failures = [rank.failure() for rank in failed]
        self.supervision.tell(failures, is_part or len(ranks.all) > 1)
        return exit_code(failed[0].returncode or 0)
