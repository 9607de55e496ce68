"""The same disturbances for torchrun and torchft, with gloo."""

import math
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from collalgo.bench.disturbances.events import AGENT, AGENT_PHASE
from collalgo.bench.disturbances.figures import Figure, Phase, figures
from collalgo.bench.disturbances.jobs import (
    WORKER,
    WORKER_PHASES,
    WORKERS,
    Command,
    Job,
    started,
    worker_killed,
)
from collalgo.bench.disturbances.trials import Times, Trials

from collalgo.launch.environment import free_port

#: Workers of a job.
SIZE = 4

#: Seconds that workers may take to end.
END_SECONDS = 3.0


@contextmanager
def torchrun(python: str) -> Iterator[Job]:
    """Four workers of a node."""
    words = ["--standalone", f"--nproc-per-node={SIZE}", "--max-restarts=9", "-m"]
    words = ["-m", "torch.distributed.run", *words, WORKERS, "torchrun"]
    # Else gloo of torch 2.13 finds the addresses of the workers before, and gives up.
    variables = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    with started([Command([python, *words], variables)], SIZE) as job:
        yield job


@contextmanager
def torchft(python: str) -> Iterator[Job]:
    """Four replicas, each of which a shell starts again, and their lighthouse."""
    address = f"127.0.0.1:{free_port()}"
    lighthouse = [python, "-m", WORKERS, "lighthouse", address]
    replica = [python, "-m", WORKERS, "torchft", f"http://{address}"]
    again = ["sh", "-c", 'while "$@"; [ $? != 0 ]; do :; done', "again", *replica]
    replicas = [Command(again, {})] * SIZE
    with started([Command(lighthouse, {}), *replicas], SIZE) as job:
        yield job


def launcher_killed(job: Job) -> Times:
    """Kill the launcher: until all of its workers have ended, infinite after 3 s."""
    watched = [os.pidfd_open(each) for each in job.workers()]
    began = time.monotonic()
    job.launchers[0].kill()
    end = began + END_SECONDS
    have_ended = True
    for each in watched:
        ready, *_ = select.select([each], [], [], max(end - time.monotonic(), 0.0))
        have_ended &= bool(ready)
        os.close(each)
    return [time.monotonic() - began if have_ended else math.inf]


def _killed(
    start: Callable[[str], AbstractContextManager[Job]],
    python: str,
    event: Callable[[Job], Times],
) -> Trials:
    """The times of an event, each in a job of its own."""
    while True:
        with start(python) as job:
            yield event(job)


def contestants(python: str) -> list[str]:
    """Those that an interpreter has installed; the others are named."""
    found = []
    for name, module in (("torchrun", "torch"), ("torchft", "torchft")):
        words = [python, "-c", f"import {module}"]
        if subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode:
            print(f"{python} cannot import {module}: no figures of {name}")
        else:
            found.append(name)
    return found


def contest(name: str, python: str, count: int) -> list[Figure]:
    """The figures of torchrun or torchft; torchft has no launcher."""
    start, where = CONTESTANTS[name], f"{SIZE} workers, 1 host"
    store = f"{name}, gloo"
    of_worker = partial(_killed, start, python, partial(worker_killed, size=SIZE))
    found = figures(WORKER, WORKER_PHASES, store, where, of_worker, count)
    if name == "torchrun":
        of_launcher = partial(_killed, start, python, launcher_killed)
        phases = [Phase(AGENT_PHASE)]
        found += figures(AGENT, phases, store, where, of_launcher, count)
    return found


#: Starts the job of each.
CONTESTANTS: dict[str, Callable[[str], AbstractContextManager[Job]]] = {
    "torchrun": torchrun,
    "torchft": torchft,
}
