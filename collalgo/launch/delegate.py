"""``collalgo run --mpi``: leave the start of the ranks to mpiexec, srun or jsrun."""

import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from collalgo.base.environment import INTERFACES
from collalgo.launch import output
from collalgo.launch.batch_command import jsrun_line, srun_line
from collalgo.launch.child import (
    Child,
    Deadline,
    as_completed,
    signal_children,
    signal_groups,
)
from collalgo.launch.environment import is_of_a_rank
from collalgo.launch.hosts import Host, RankPosition, assign_ranks
from collalgo.launch.messages import report
from collalgo.launch.mpi_command import Line, Step, find_mpiexec, mpi_line
from collalgo.launch.options import Choice, LaunchOptions, Starter
from collalgo.launch.placement import Placement, planned_ranks
from collalgo.launch.process import exit_code
from collalgo.launch.signals import signals_forwarded, signals_raise
from collalgo.launch.supervision import run_to_end

#: The command line of each launcher for a step.
LINES: Mapping[Starter, Callable[[Step], Line]] = {
    Starter.MPI: lambda step: mpi_line(find_mpiexec(), step),
    Starter.SLURM: srun_line,
    Starter.LSF: jsrun_line,
}


@dataclass(frozen=True)
class DelegatedLaunch:
    """The plan to become the launcher of an MPI or of a batch system.

    Attributes
    ----------
    line : sequence of str
        Its command line.
    variables : mapping
        Additional variables of its environment.
    hosts : mapping
        The ranks of each host; none if the launcher decides.
    options : LaunchOptions
        The options of the job.
    """

    line: Sequence[str]
    variables: Mapping[str, str]
    hosts: Mapping[Host, Sequence[RankPosition]]
    options: LaunchOptions = field(repr=False)

    @classmethod
    def of_job(
        cls, options: LaunchOptions, size: int, choice: Choice
    ) -> "DelegatedLaunch":
        """The plan to run a command on ``size`` ranks.

        Raises
        ------
        BootstrapError
            If the launcher is not installed, or the ranks do not fit on the hosts.
        """
        hosts = assign_ranks(choice.hosts, size) if choice.hosts else {}
        used = [Host(host.name, len(ranks)) for host, ranks in hosts.items()]
        words, variables = LINES[choice.starter](Step(size, used, options))
        nics = (
            {INTERFACES.name: ",".join(options.interfaces)}
            if options.interfaces
            else {}
        )
        rank = _rank_words(options, [host.slots for host in used])
        line = [*words, *options.launcher_words, *rank, *options.command]
        return cls(line, variables | nics, hosts, options)

    def run(self) -> int:
        """Show the command line and replace this process by the launcher.

        With times before its lines this process stays, to write them.
        """
        report(self.shown)
        for name in [*filter(is_of_a_rank, os.environ)]:
            del os.environ[name]
        os.environ.update(self.variables)
        if not self.options.timestamp:
            os.execv(self.line[0], list(self.line))
        return self._run_stamped()

    @property
    def shown(self) -> str:
        """The command line, quoted for a shell."""
        variables = [f"{name}={shlex.quote(v)}" for name, v in self.variables.items()]
        return " ".join([*variables, shlex.join(self.line)])

    def _run_stamped(self) -> int:
        """Run the launcher, and write the time before each of its lines."""
        sinks = output.sinks(timestamp=True)
        with closing(Child(self.line, sinks)) as child:
            send = partial(_send, child)

            def work() -> int:
                for _ in as_completed([child], Deadline()):
                    pass
                return exit_code(child.returncode or 0)

            with signals_raise(), signals_forwarded(send, stops=True):
                return run_to_end(work, partial(_stop, child), sinks)

    def placement(self) -> Placement:
        """The placement of the ranks, where it is known before the start."""
        nics = ",".join(self.options.interfaces) or "as the launcher decides"
        ranks = planned_ranks(self.hosts, self.options.binding, nics)
        return Placement(list(ranks), [self.shown])


def _send(child: Child, number: int) -> None:
    """Send the launcher a signal; its ranks only those that it cannot pass on."""
    if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT):
        signal_children([child], number)
    else:
        signal_groups([child.process.pid], number)


def _stop(child: Child, number: int) -> None:
    """Pass the request to stop on to the launcher, and wait for its end."""
    _send(child, number)
    for _ in as_completed([child], Deadline()):
        pass


def _rank_words(options: LaunchOptions, counts: Sequence[int]) -> list[str]:
    """The command that sets the variables of a rank and then runs its own."""
    # mpirun of Open MPI takes its own options (--bind-to) for its own here, too.
    words = [sys.executable, "-m", "collalgo.launch.delegated_rank"]
    words += ["--rank-env", options.dialect, "--rank-binding", options.binding.value]
    if counts:
        words += ["--rank-counts", ",".join(map(str, counts))]
    if options.logs is not None:
        words += ["--rank-logs", str(options.logs.absolute())]
    return [*words, "--"]
