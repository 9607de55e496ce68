"""Jobs of workers that report each of their steps, and whose workers are killed."""

import json
import math
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from threading import Thread
from typing import NamedTuple

from collalgo.bench.disturbances.figures import Phase
from collalgo.bench.disturbances.trials import Times, trial

#: Seconds that a job may take to start or to recover.
PATIENCE = 60.0

#: The most seconds by which a step is reported later than one that follows it.
REPORT_SECONDS = 1.0

#: The module of the workers.
WORKERS = "collalgo.bench.disturbances.workers"

#: The event of :func:`worker_killed`, and its phases.
WORKER = "kill -9 of a worker"
WORKER_PHASES = (
    Phase("the others make steps again"),
    Phase("all make steps again"),
    Phase("the longest step of the others meanwhile"),
)


class Command(NamedTuple):
    """A command that starts workers, and its further environment variables."""

    words: Sequence[str]
    variables: dict[str, str]


class Step(NamedTuple):
    """A step that a worker has made with some others."""

    process: int
    size: int
    time: float


class Job:
    """The processes that start the workers of a job, and the reported steps.

    Parameters
    ----------
    commands
        Their commands.
    """

    def __init__(self, commands: Sequence[Command]):
        self.steps: list[Step] = []
        self.launchers: list[subprocess.Popen[bytes]] = []
        self._readers: list[Thread] = []
        self._workers: dict[int, int] = {}  # descriptors, by process number
        for command in commands:
            self.start(command)

    def start(self, command: Command) -> subprocess.Popen[bytes]:
        """Start workers by a command."""
        made = subprocess.Popen(
            command.words,
            env={**os.environ, **command.variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.launchers.append(made)
        self._readers.append(Thread(target=self._read, args=(made,), daemon=True))
        self._readers[-1].start()
        return made

    def _read(self, launcher: subprocess.Popen[bytes]) -> None:
        assert launcher.stdout is not None
        with launcher.stdout as lines:
            for line in lines:
                if found := re.search(rb"\[\d+, \d+, [\d.]+\]", line):
                    self._add(Step(*json.loads(found[0])))
        launcher.wait()

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if step.process not in self._workers:
            with suppress(ProcessLookupError):
                self._workers[step.process] = os.pidfd_open(step.process)

    def _since(self, begin: float) -> Iterator[Step]:
        """The steps since some time, the last ones first."""
        for step in reversed(self.steps):
            if step.time < begin - REPORT_SECONDS:
                return
            if step.time > begin:
                yield step

    def until(
        self,
        workers: int,
        size: int,
        after: float,
        *,
        exactly: bool = False,
        but: int | None = None,
        patience: float = PATIENCE,
    ) -> float:
        """The time at which a number of workers have made a step, after some time.

        They are workers of at least ``size`` members, or ``exactly`` as many, without
        the process ``but``.

        Raises
        ------
        TimeoutError
            If they have not in time.
        """
        end = time.monotonic() + patience
        while True:
            first: dict[int, float] = {}
            for step in self._since(after):
                fits = step.size == size or (step.size > size and not exactly)
                if fits and step.process != but:
                    first[step.process] = step.time
            if len(first) >= workers:
                return sorted(first.values())[workers - 1]
            if time.monotonic() > end:
                raise TimeoutError(f"no {workers} workers have made a step")
            time.sleep(0.01)

    def longest_step(self, begin: float, end: float) -> float:
        """The longest time between two steps of a worker in some time, or NaN."""
        made: dict[int, list[float]] = {}
        for step in self._since(begin):
            if step.time <= end:
                made.setdefault(step.process, []).append(step.time)
        waits = [b - a for times in made.values() for a, b in pairwise(sorted(times))]
        return max(waits, default=math.nan)

    def workers(self) -> list[int]:
        """The processes that make steps now."""
        return sorted({step.process for step in self._since(time.monotonic() - 1.0)})

    def end(self) -> None:
        """Kill all processes that have not ended."""
        for launcher in self.launchers:
            if launcher.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(launcher.pid, signal.SIGKILL)
        while self._workers:
            _, worker = self._workers.popitem()
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(worker, signal.SIGKILL)
            os.close(worker)
        for reader in self._readers:
            reader.join(PATIENCE)


@contextmanager
def started(commands: Sequence[Command], size: int) -> Iterator[Job]:
    """A job of which all ``size`` workers have made steps together for a second."""
    job = Job(commands)
    try:
        job.until(size, size, job.until(size, size, 0.0) + 1.0)
        yield job
    finally:
        job.end()


def worker_killed(job: Job, size: int, victim: int | None = None) -> Times:
    """Kill a worker: until the others make steps again, and until all do.

    The last is the longest step of the others in between, as the newcomer joins.
    """
    victim = job.workers()[-1] if victim is None else victim
    began = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    with trial() as times:
        try:
            everyone = job.until(size, size, began, but=victim)  # also the newcomer
        except TimeoutError:
            times.append(_without_newcomer(job, size - 1, began, math.inf) - began)
            raise
        others = _without_newcomer(job, size - 1, began, everyone)
        waited = job.longest_step(others, everyone)
        times += [others - began, everyone - began, waited]
    return times


def _without_newcomer(job: Job, size: int, began: float, otherwise: float) -> float:
    """When as many workers made a step again; otherwise they waited for another one."""
    try:
        return job.until(size, size, began, exactly=True, patience=0.0)
    except TimeoutError:
        return otherwise
