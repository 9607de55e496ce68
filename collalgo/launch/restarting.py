"""Ranks of this host that may die: they are restarted, and the others continue.

The launcher holds the store of their rendezvous; see :mod:`collalgo.elastic`.
"""

import os
import secrets
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from functools import cache, partial

from collalgo._version import __version__
from collalgo.base.environment import JOB, MEMBER, MEMBERS, RENDEZVOUS, SECRET
from collalgo.base.units import counted
from collalgo.bootstrap.launcher_variables import RESTART_COUNT
from collalgo.bootstrap.store.at_url import StorePlace, store_place
from collalgo.bootstrap.store.ended_members import EndReports
from collalgo.bootstrap.store.exclusion import excluded_at
from collalgo.bootstrap.store.job_end import begin_end, close_job
from collalgo.bootstrap.store.job_start import check_start
from collalgo.bootstrap.store.server import Server
from collalgo.launch.back_off import back_off
from collalgo.launch.child import Deadline, as_completed, kill_children
from collalgo.launch.late_failures import LateFailures
from collalgo.launch.local import LocalLaunch
from collalgo.launch.messages import report
from collalgo.launch.node_store import hold_store
from collalgo.launch.options import RESTARTS, LaunchOptions
from collalgo.launch.process import exit_code, exit_reason
from collalgo.launch.ranks import OF_A_LOST_JOB, Rank, Ranks, RankSpec
from collalgo.launch.start_failure import StartFailure

#: Seconds between two checks whether an excluded rank is readmitted.
READMISSION = 0.5

#: The variables of a rank's place in a whole job.
OF_WHOLE_JOB = ("RANK", "WORLD_SIZE", "CROSS_RANK", "CROSS_SIZE")

#: The address at which the ranks of this host reach the launcher.
HERE = "127.0.0.1"

#: Called with the number of ranks that run, at each end of one once a rank has ended
#: with exit code 0; none of this host is restarted.
End = Callable[[int], None]


@dataclass(frozen=True)
class RestartingLaunch(LocalLaunch):
    """The plan to run a command on ranks of this host that may die and be restarted.

    Attributes
    ----------
    least : int
        The least number of ranks of this host with which the job continues.
    restarts : int
        Restarts of each rank, at most.
    node : dict or None
        On a node of a larger job the variables of the rendezvous and of the number of
        members; empty if the ranks have them. Otherwise they connect over a store that
        the launcher holds.
    """

    least: int = 1
    restarts: int = RESTARTS
    node: dict[str, str] | None = None

    def _run(self, ranks: Ranks, held: ExitStack) -> int:
        """Start the ranks, and supervise them; hold the store until they have ended."""
        of_job = self._of_host if self.node is None else self._of_node
        common, place, end = of_job(held)

        def start(spec: RankSpec, count: int) -> None:
            before = int(spec.environment.get(RESTART_COUNT, 0))
            counted = {RESTART_COUNT: str(before + count)}
            ranks.start(
                spec._replace(environment={**spec.environment, **common, **counted})
            )

        for spec in self.specs:
            start(spec, 0)
        reports = held.enter_context(closing(EndReports(place)))
        return _Supervision(self, ranks, start, end, place, reports).run()

    def _of_host(self, held: ExitStack) -> tuple[dict[str, str], StorePlace, End]:
        """The variables of ranks that are all on this host, the store, and the end."""
        secret = secrets.token_bytes(32)
        server = held.enter_context(closing(Server(secret, HERE)))
        url = f"collalgo://{HERE}:{server.port}"
        variables = {
            RENDEZVOUS.name: url,
            MEMBERS.name: f"{self.least}:{len(self.specs)}",
            SECRET.name: secret.hex(),
        }

        def end(living: int) -> None:
            if 0 < living < self.least:
                reason = f"others ended, {living} of {self.least} ranks remain"
                close_job(HERE, server.port, secret, reason)

        return variables, store_place(url, "job", secret=secret), end

    def _of_node(self, held: ExitStack) -> tuple[dict[str, str], StorePlace, End]:
        """The variables of the ranks of a node, the store, which it may hold, the end.

        Ranks of other nodes may still come: the members decide.
        """
        variables = {**self.specs[0].environment, **(self.node or {})}
        where, given = RENDEZVOUS.given(variables), SECRET.value(variables)
        place = store_place(where, JOB.given(variables), secret=given)
        if self.node:
            hold_store(place, held)
            terms = {"collalgo": __version__, "members": self.node[MEMBERS.name]}
            check_start(place, self.command, terms, report)
        once = cache(partial(begin_end, place, "a rank has ended"))
        return self.node or {}, place, lambda _living: once()


def restarting_launch(options: LaunchOptions, size: int) -> RestartingLaunch:
    """The plan of a job of ``size`` ranks on this host, or of one of its nodes."""
    plain = LocalLaunch.of_job(options, size)
    node = _node(options, size)
    least = 1 if node else size if options.least is None else options.least
    here = f"{socket.gethostname()}-{os.getpid()}"
    specs = [
        spec._replace(
            environment=of_node(spec.environment, f"{here}.{spec.rank}")
            if node
            else {**spec.environment, MEMBER.name: f"rank {spec.rank}"}
        )
        for spec in plain.specs
    ]
    restarts = RESTARTS if options.restarts is None else options.restarts
    how = plain.logs, plain.scope, plain.timestamp, plain.supervision
    return RestartingLaunch(plain.command, specs, *how, least, restarts, node)


def _node(options: LaunchOptions, size: int) -> dict[str, str] | None:
    """The variables of a node of a larger job with ``size`` ranks on each."""
    if options.nodes is None or options.rendezvous is None:
        return None
    return {
        RENDEZVOUS.name: options.rendezvous,
        MEMBERS.name: ":".join(str(n * size) for n in options.nodes),
        JOB.name: options.job,
    }


def of_node(variables: dict[str, str], name: str) -> dict[str, str]:
    """The variables of a member with a name; only an epoch gives it a rank."""
    own = {n: value for n, value in variables.items() if n not in OF_WHOLE_JOB}
    return {**own, MEMBER.name: name}


@dataclass
class _Supervision:
    """The ranks of a job while it runs.

    Attributes
    ----------
    ranks : Ranks
        Their processes.
    start : callable
        Starts a rank after a number of restarts.
    end : callable
        Called with the number that run, at each end once one had exit code 0.
    place : StorePlace
        The store, which names the excluded members.
    reports : EndReports
        Reports to the store that ranks have ended.
    """

    plan: RestartingLaunch
    ranks: Ranks
    start: Callable[[RankSpec, int], None]
    end: End
    place: StorePlace
    reports: EndReports
    excluded: set[int] = field(default_factory=set)
    due: dict[int, float] = field(default_factory=dict)
    deaths: Counter[int] = field(default_factory=Counter)
    lost: list[Rank] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.late = LateFailures(self.place)

    def run(self) -> int:
        """Supervise the ranks to the end of the job: its exit code."""
        while self._living() or self.due:
            deadline = Deadline(self._seconds_to_restart())
            for ended in as_completed(self.ranks.running(), deadline):
                self._end(ended)
                if self.late.has_finished:
                    self.end(self._living())
                deadline.at_most(self._seconds_to_restart())
            self.ranks.release_ended()
            if self._are_too_few():
                return self._give_up()
            self._readmit()
            self._restart()
        if self.late.missed is not None:
            return self._report_late(self.late.missed)
        return 0 if self.late.has_finished else self._give_up()

    def _are_too_few(self) -> bool:
        """Whether the job cannot go on."""
        left = self._living() + len(self.due)
        return left < self.plan.least and not self.late.is_over

    def _living(self) -> int:
        return len(self.ranks.running())

    def _seconds_to_restart(self) -> float:
        """Seconds to the next restart, or to the next check if ranks are too few."""
        if self._are_too_few():
            return self.plan.supervision.settle
        seconds = min(self.due.values(), default=float("inf")) - time.monotonic()
        return min(seconds, READMISSION) if self.excluded else seconds

    def _end(self, rank: Rank) -> None:
        """React to the end of a rank: restart it after a delay, if it has died."""
        kill_children([rank])  # what it has started and left
        if not (code := rank.returncode):
            self.late.has_finished = True
            self.due.clear()
            self.excluded.clear()
            return
        name = self._names()[rank.rank]
        self.lost.append(rank)
        self.reports.send(name)
        self.late.look()
        words = f"rank {rank.rank} {exit_reason(code)}"
        if self.late.is_over:
            self.late.add(rank, name, is_first=not self.deaths[rank.rank])
            self.deaths[rank.rank] += 1
            report(f"{words}; the job ends without it")
        elif rank.rank in self._excluded_ranks():
            self.excluded.add(rank.rank)
            report(f"{words}; it is excluded, and restarted once it is readmitted")
        else:
            self._restart_later(rank.rank, words, rank.ended_by(OF_A_LOST_JOB))

    def _restart_later(self, rank: int, words: str, is_job_lost: bool = False) -> None:
        """Restart a rank after a delay, unless it was restarted often enough."""
        self.deaths[rank] += 1
        number, most = self.deaths[rank], self.plan.restarts
        if is_job_lost:
            report(f"{words}; it is not restarted, as it would begin the work again")
        elif number <= most:
            self.due[rank] = time.monotonic() + back_off(number)
            report(f"{words}; restart {number} of {most}")
        else:
            report(f"{words} after {most} restarts; it is not restarted")

    def _excluded_ranks(self) -> set[int]:
        """The ranks of this host that are excluded now."""
        excluded = excluded_at(self.place)
        return {rank for rank, name in self._names().items() if name in excluded}

    def _names(self) -> dict[int, str]:
        """The names of the ranks as members."""
        return {s.rank: s.environment.get(MEMBER.name, "") for s in self.plan.specs}

    def _readmit(self) -> None:
        """Restart those that are readmitted, which does not count as a failure."""
        readmitted = self.excluded and self.excluded - self._excluded_ranks()
        self.excluded -= readmitted
        self.due.update(dict.fromkeys(readmitted, time.monotonic()))

    def _restart(self) -> None:
        """Restart the ranks that are due."""
        specs = {spec.rank: spec for spec in self.plan.specs}
        for rank, moment in list(self.due.items()):
            if time.monotonic() >= moment:
                del self.due[rank]
                self.reports.settle(self._names()[rank])
                try:
                    self.start(specs[rank], self.deaths[rank])
                except StartFailure as error:
                    self._restart_later(rank, str(error))

    def _report_late(self, rank: Rank) -> int:
        """Report a rank that has failed after the training."""
        self.ranks.sinks.err.end_line()
        self.plan.supervision.tell([rank.failure()], False)
        return exit_code(rank.returncode or 0)

    def _give_up(self) -> int:
        """Stop the remaining ranks, and report the last that has died."""
        self.ranks.stop(signal.SIGTERM)
        self.ranks.sinks.err.end_line()
        last = self.lost[-1].failure()
        words = f"{last.reason} (fewer than {counted(self.plan.least, 'rank')} left)"
        self.plan.supervision.tell([last._replace(reason=words)], False)
        return exit_code(self.lost[-1].returncode or 0)
