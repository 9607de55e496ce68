"""The ranks of a job on this host while they run: their start, signals and end."""

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from collalgo.base.signal_handlers import catches
from collalgo.launch.binding import Cpus
from collalgo.launch.child import (
    Child,
    Deadline,
    as_completed,
    close_children,
    signal_children,
)
from collalgo.launch.error_records import ErrorRecords
from collalgo.launch.output import Sinks
from collalgo.launch.process import Process, exit_reason, processes, send_signal
from collalgo.launch.session_guard import SessionGuard
from collalgo.launch.signals import FORWARDED, stop_delayed
from collalgo.launch.start_failure import StartFailure
from collalgo.launch.supervision import STOP_SECONDS, RankFailure, error_lines

#: The last line of the traceback of a rank that failed only because another did.
OF_A_VICTIM = ("collalgo.errors.PeerFailed", "collalgo.errors.CommunicatorRevoked")

#: That of a rank whose job is lost: a restarted rank would begin the work again.
OF_A_LOST_JOB = "collalgo.errors.EpochLost"

#: The begin of the line after the error of a call in the background.
NOTE = "called in the background at "

#: The exit code of Python after an error that nothing catches.
UNCAUGHT = 1


class RankSpec(NamedTuple):
    """A rank to be started, its environment, and its binding."""

    rank: int
    environment: dict[str, str]
    cpus: Cpus | None = None


class Rank(Child):
    """The process of one rank."""

    def __init__(
        self,
        spec: RankSpec,
        command: Sequence[str],
        sinks: Sinks,
        stdin: int | None,
        records: ErrorRecords,
    ):
        self.rank, self._records = spec.rank, records
        self._key, where = records.next()
        variables = {**spec.environment, **where}
        super().__init__(command, sinks, self.rank, stdin, variables, spec.cpus)

    def traceback(self) -> list[str]:
        """The recorded error, or the last traceback or lines of standard error."""
        if recorded := self._records.traceback(self._key):
            return list(recorded)
        lines = self._forwarded()
        starts = [i for i, line in enumerate(lines) if line.startswith("Traceback")]
        return lines[starts[-1] :] if starts else lines[-10:]

    def _forwarded(self) -> list[str]:
        """The last lines of standard error, which were forwarded."""
        return [line.decode(errors="replace") for line in self.streams[1].last_lines]

    def is_victim(self) -> bool:
        """Whether the rank failed only because of the failure of another."""
        return self.ended_by(OF_A_VICTIM)

    def ended_by(self, errors: str | tuple[str, ...]) -> bool:
        """Whether the error of its traceback begins with one of some names."""
        lines = self.traceback()
        while lines and lines[-1].startswith(NOTE):
            lines.pop()
        return bool(lines) and lines[-1].startswith(errors)

    def note_end(self) -> None:
        """Tell the ranks that wait for this one to join that it has ended normally."""
        self._records.note_end(self.rank, self.process.pid)

    def failure(self) -> RankFailure:
        """The failure of the process."""
        reason = f"rank {self.rank} {exit_reason(self.returncode or 0)}"
        lines = self.traceback()
        return RankFailure(self.rank, reason, lines, self._is_above(lines))

    def _is_above(self, lines: Sequence[str]) -> bool:
        """Whether lines are the traceback of its failure, in the forwarded output.

        One that is not recorded may be of an error that the program has handled: it is
        that of the failure if nothing follows, and Python has ended the process.
        """
        if not any(line.startswith("Traceback") for line in lines[:1]):
            return False
        if self._records.traceback(self._key):
            forwarded = self._forwarded()
            return lines[0] in forwarded and lines[-1] in forwarded
        _, *notes = error_lines(lines)
        return self.returncode == UNCAUGHT and all(n.startswith(NOTE) for n in notes)


class Ranks:
    """The processes of the ranks of this host.

    Parameters
    ----------
    command
        The command line of each rank.
    size
        The number of ranks.
    sinks
        Destinations of their output.
    has_input
        Whether rank 0 reads the standard input of the launcher.

    Attributes
    ----------
    all : list of Rank
        All that were started, also those that have ended.
    """

    def __init__(
        self, command: Sequence[str], size: int, sinks: Sinks, *, has_input: bool
    ):
        self._command, self._size, self.sinks = command, size, sinks
        self._has_input = has_input
        self._records, self._guard = ErrorRecords(), SessionGuard()
        self.all: list[Rank] = []

    def start(self, spec: RankSpec) -> None:
        """Start a rank.

        Raises
        ------
        StartFailure
            If the system refuses it.
        """
        reads = spec.rank == 0 and self._has_input
        stdin = None if reads else subprocess.DEVNULL
        with stop_delayed():  # each process is in the list
            try:
                rank = Rank(spec, self._command, self.sinks, stdin, self._records)
                self.all.append(rank)
                self._guard.add(rank.process.pid)
            except OSError as error:
                raise StartFailure.of(spec.rank, self._size, error) from None

    def running(self) -> list[Rank]:
        """Those that have not ended."""
        return [rank for rank in self.all if not rank.ended]

    def release_ended(self) -> None:
        """Close the descriptors of those that have ended; a job may restart many."""
        for rank in self.all:
            if rank.ended:
                rank.release_descriptors()

    def stop(self, number: int) -> None:
        """Send a signal, then stronger ones, and forward the output meanwhile."""
        for each in (number, signal.SIGTERM, signal.SIGKILL):
            self._signal(each)
            for _ in as_completed(self.running(), Deadline(STOP_SECONDS)):
                pass
            if not self.running():
                return

    def forward(self, number: int) -> None:
        """Send the ranks a signal that is meant for them.

        Of the processes of a rank only those get it that handle it: it would kill a
        shell that has started a script. If none does, the rank gets it.
        """
        if number not in FORWARDED:
            signal_children(self.running(), number)
            return
        handling: dict[int, list[Process]] = {r.process.pid: [] for r in self.running()}
        for process in processes():
            with suppress(OSError):  # it has ended
                if process.session in handling and catches(process.number, number):
                    handling[process.session].append(process)
        for leader, found in handling.items():
            for process in found:
                send_signal(process, number)
            if not found:
                os.kill(leader, number)  # which is not reaped yet

    def close(self) -> None:
        """Kill what is left of the ranks, and release all resources."""
        close_children(self.all, killed=self._guard.close)
        self._records.close()

    def _signal(self, number: int) -> None:
        """Send a signal to all running ranks, before any of them runs on.

        Otherwise the first ranks may end before the last ones have the signal, and
        these would report a failed peer.
        """
        for each in (signal.SIGSTOP, number, signal.SIGCONT):
            signal_children(self.running(), each)
