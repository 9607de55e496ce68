"""The same disturbances for collalgo, and for torchrun and torchft with gloo.

``python -m collalgo.bench.disturbances.contest --torch PYTHON`` kills a worker of four,
and the launcher, of jobs that do nothing but allreduces of 1000 numbers.
"""

import argparse
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import pairwise
from threading import Thread
from typing import NamedTuple

import numpy as np

from collalgo.launch.environment import free_port

#: Workers of a job.
SIZE = 4

#: Seconds that a job may take to start or to recover, and workers to end.
PATIENCE, END_SECONDS = 60.0, 3.0

WORKERS = "collalgo.bench.disturbances.workers"


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
        Their command lines, each with variables.
    """

    def __init__(self, commands: Sequence[tuple[list[str], dict[str, str]]]):
        self.steps: list[Step] = []
        self.launchers: list[subprocess.Popen[bytes]] = []
        self._workers: dict[int, int] = {}  # descriptors, by process number
        for command in commands:
            Thread(target=self._supervise, args=command, daemon=True).start()

    def _supervise(self, command: list[str], variables: dict[str, str]) -> None:
        env = {**os.environ, **variables}
        made = subprocess.Popen(
            command,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.launchers.append(made)
        assert made.stdout is not None
        for line in made.stdout:
            if found := re.search(rb"\[\d+, \d+, [\d.]+\]", line):
                self._add(Step(*json.loads(found[0])))
        made.wait()

    def _add(self, step: Step) -> None:
        self.steps.append(step)
        if step.process not in self._workers:
            with suppress(ProcessLookupError):
                self._workers[step.process] = os.pidfd_open(step.process)

    def until(self, workers: int, size: int, after: float) -> float:
        """The time at which a number of workers have made a step, after some time.

        Raises
        ------
        TimeoutError
            If they have not in time.
        """
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            first: dict[int, float] = {}
            for step in list(self.steps):
                if step.time > after and step.size >= size:
                    first.setdefault(step.process, step.time)
            if len(first) >= workers:
                return sorted(first.values())[workers - 1]
            time.sleep(0.02)
        raise TimeoutError(f"no {workers} workers have made a step")

    def longest_step(self, begin: float, end: float) -> float:
        """The longest time between two steps of a worker in some time; 0 without."""
        made: dict[int, list[float]] = {}
        for step in list(self.steps):
            if begin <= step.time <= end:
                made.setdefault(step.process, []).append(step.time)
        waits = [b - a for times in made.values() for a, b in pairwise(sorted(times))]
        return max(waits, default=0.0)

    def workers(self) -> list[int]:
        """The processes that make steps now."""
        return sorted({s.process for s in self.steps if s.time > time.monotonic() - 1})

    def end(self) -> None:
        """Kill all processes that have not ended."""
        for launcher in self.launchers:
            if launcher.poll() is None:
                os.killpg(launcher.pid, signal.SIGKILL)
        while self._workers:
            _, worker = self._workers.popitem()
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(worker, signal.SIGKILL)
            os.close(worker)


@contextmanager
def collalgo(_python: str) -> Iterator[Job]:
    """Four ranks of this host, which may die and be restarted."""
    words = ["-n", str(SIZE), "--min", "2", sys.executable, "-m", WORKERS, "collalgo"]
    with started([([sys.executable, "-m", "collalgo", "run", *words], {})]) as job:
        yield job


@contextmanager
def torchrun(python: str) -> Iterator[Job]:
    """Four workers of a node."""
    words = ["--standalone", f"--nproc-per-node={SIZE}", "--max-restarts=9", "-m"]
    words = ["-m", "torch.distributed.run", *words, WORKERS, "torchrun"]
    # Else gloo of torch 2.13 finds the addresses of the workers before, and gives up.
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with started([([python, *words], variables)]) as job:
        yield job


@contextmanager
def torchft(python: str) -> Iterator[Job]:
    """Four replicas, each of which a shell starts again, and their lighthouse."""
    address = f"127.0.0.1:{free_port()}"
    lighthouse = [python, "-m", WORKERS, "lighthouse", address]
    replica = [python, "-m", WORKERS, "torchft", f"http://{address}"]
    again = ["sh", "-c", 'while "$@"; [ $? != 0 ]; do :; done', "again", *replica]
    with started([(lighthouse, {}), *[(again, {})] * SIZE]) as job:
        yield job


@contextmanager
def started(commands: Sequence[tuple[list[str], dict[str, str]]]) -> Iterator[Job]:
    """A job of which all workers have made steps together for a second."""
    job = Job(commands)
    try:
        job.until(SIZE, SIZE, job.until(SIZE, SIZE, 0.0) + 1.0)
        yield job
    finally:
        job.end()


def worker_killed(job: Job) -> Sequence[float]:
    """Kill a worker: until three workers make steps again, and until all four do.

    The last is the longest step of the three in between, as the fourth joins.
    """
    victim = job.workers()[-1]
    began = time.monotonic()
    os.kill(victim, signal.SIGKILL)
    others = job.until(SIZE - 1, SIZE - 1, began + 0.001)
    everyone = job.until(SIZE, SIZE, began + 0.001)
    return [others - began, everyone - began, job.longest_step(others, everyone)]


def launcher_killed(job: Job) -> Sequence[float]:
    """Kill the launcher: until all of its workers have ended, at most 3 s."""
    watched = [os.pidfd_open(each) for each in job.workers()]
    began = time.monotonic()
    job.launchers[0].kill()
    end = began + END_SECONDS
    for each in watched:
        select.select([each], [], [], max(end - time.monotonic(), 0.0))
        os.close(each)
    return [time.monotonic() - began]


Event = tuple[Callable[[Job], Sequence[float]], tuple[str, ...]]

WORKER: Event = (
    worker_killed,
    ("3 of 4 workers go on", "all 4 workers go on", "longest step in between"),
)
LAUNCHER: Event = launcher_killed, ("all workers have ended",)

#: What starts the job of each, and what can happen to it: torchft has no launcher.
CONTESTANTS: dict[
    str, tuple[Callable[[str], AbstractContextManager[Job]], Sequence[Event]]
] = {
    "collalgo": (collalgo, (WORKER, LAUNCHER)),
    "torchrun": (torchrun, (WORKER, LAUNCHER)),
    "torchft": (torchft, (WORKER,)),
}


def main() -> None:
    """Print medians of some trials."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("contestants", nargs="*", default=["collalgo", "torchrun"])
    parser.add_argument("--torch", default=sys.executable, help="Python with torch")
    parser.add_argument("--trials", type=int, default=10)
    given = parser.parse_args()
    print(f"ms in {given.trials} trials; less is better")
    for name in given.contestants:
        start, events = CONTESTANTS[name]
        for event, phases in events:
            found = []
            for _ in range(given.trials):
                with start(given.torch) as job:
                    found.append(event(job))
            for phase, times in zip(phases, np.array(found).T * 1e3, strict=True):
                p50, most = np.median(times), times.max()
                print(f"{name:<10}{phase:<30} p50 {p50:7.0f}  most {most:7.0f}")


if __name__ == "__main__":
    main()
