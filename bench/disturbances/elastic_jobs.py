"""Elastic jobs on this host and on emulated hosts, whose workers die and return."""

import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import NamedTuple

from collalgo.bench.cluster.kernel import inside
from collalgo.bench.cluster.layout import Layout
from collalgo.bench.cluster.running import UCX
from collalgo.bench.disturbances.etcd import etcd, on_this_host, version_of
from collalgo.bench.disturbances.figures import Aim, Figure, Phase, figures
from collalgo.bench.disturbances.jobs import (
    WORKER,
    WORKER_PHASES,
    WORKERS,
    Command,
    Job,
    started,
    worker_killed,
)
from collalgo.bench.disturbances.members import SECRET, SILENCE
from collalgo.bench.disturbances.partitions import cluster, place_on
from collalgo.bench.disturbances.trials import TrialFailed, Trials, trial

from collalgo.base.environment import SECRET as SECRET_VARIABLE, SILENCE as OF_SILENCE

#: Workers of the job on one host, and of each of the emulated hosts.
SIZE, PER_HOST = 4, 2

#: The aims of the first two phases on one host, on several, and of a late node.
ON_HOST, ON_HOSTS = Aim(20, 100), Aim(100, 300)
LATE_STEP = Aim(p99=100)

#: Members of an etcd.
MEMBERS = 3

#: The port of an embedded store.
PORT = 29400

_jobs = count()


class Store(NamedTuple):
    """A store of jobs: embedded, or an etcd by its path."""

    program: str = ""

    @property
    def name(self) -> str:
        return version_of(self.program) if self.program else "embedded"


def _elastic(url: str, nodes: str, per_node: int) -> list[str]:
    """The command of a node of a new job, without that of its workers."""
    words = ["--elastic", "--nodes", nodes, "--per-node", str(per_node)]
    return [*words, "--rendezvous", url, "--max-restarts", "99"]


def _run(words: Sequence[str], number: int) -> list[str]:
    """The command line of a launcher of workers."""
    identity = ["--id", f"bench-{number}"] if "--elastic" in words else []
    workers = [sys.executable, "-m", WORKERS, "collalgo"]
    return [sys.executable, "-m", "collalgo", "run", *words, *identity, *workers]


@contextmanager
def on_this_host_with(store: Store) -> Iterator[Job]:
    """Four workers on this host."""
    variables = {SECRET_VARIABLE.name: SECRET}
    if not store.program:
        run = _run(["-n", str(SIZE), "--min", "2"], next(_jobs))
        with started([Command(run, variables)], SIZE) as job:
            yield job
        return
    with etcd(on_this_host(MEMBERS), (), store.program) as servers:
        run = _run(_elastic(servers.url, "1:2", SIZE // 2), next(_jobs))
        with started([Command(run, variables)] * 2, SIZE) as job:
            yield job


@contextmanager
def commands_on(layout: Layout, store: Store) -> Iterator[list[Command]]:
    """The commands of the nodes of a new job on the hosts of a cluster."""
    number, nodes = next(_jobs), f"1:{len(layout.hosts)}"
    of_jobs = {SECRET_VARIABLE.name: SECRET, OF_SILENCE.name: f"{SILENCE:g}"}
    variables = {**UCX, **of_jobs}

    def commands(url: str) -> list[Command]:
        run = _run(_elastic(url, nodes, PER_HOST), number)
        return [Command(inside(layout, h, *run), variables) for h in layout.hosts]

    places = [place_on(layout, host) for host in layout.hosts]
    if not store.program:
        yield commands(f"collalgo://{places[0].address}:{PORT + number}")
        return
    with etcd(places[:MEMBERS], (), store.program) as servers:
        yield commands(servers.url)


def _kills(job: Job, size: int) -> Trials:
    """Kill each worker of a job once, as later restarts wait longer."""
    for victim in job.workers():
        if victim not in job.workers():
            raise TrialFailed(f"worker {victim} has ended by itself")
        yield worker_killed(job, size, victim)
        time.sleep(0.3)


def _on_this_host(store: Store) -> Trials:
    while True:
        with on_this_host_with(store) as job:
            yield from _kills(job, SIZE)


def _on_hosts(layout: Layout, store: Store) -> Trials:
    size = PER_HOST * len(layout.hosts)
    while True:
        with commands_on(layout, store) as commands, started(commands, size) as job:
            yield from _kills(job, size)


def _returning(layout: Layout, store: Store, nodes: int) -> Trials:
    """End the last nodes, and start them again: until their workers make steps."""
    size = PER_HOST * len(layout.hosts)
    left = size - PER_HOST * nodes
    with commands_on(layout, store) as commands, started(commands, size) as job:
        last = job.launchers[-nodes:]
        while True:
            ended = time.monotonic()
            for each in last:
                os.killpg(each.pid, signal.SIGTERM)
            for each in last:
                each.wait()
            with trial() as times:
                job.until(left, left, ended, exactly=True)
                time.sleep(0.3)
                began = time.monotonic()
                last = [job.start(command) for command in commands[-nodes:]]
                joined = job.until(size, size, began)
                times += [joined - began, job.longest_step(began, joined)]
            yield times
            time.sleep(0.3)


def workers(store: Store, trials: int) -> list[Figure]:
    """Workers are killed on this host."""
    phases = _with_aim(ON_HOST)
    where = f"{SIZE} workers, 1 host"
    events = partial(_on_this_host, store)
    return figures(WORKER, phases, store.name, where, events, trials)


def hosts(store: Store, trials: int) -> list[Figure]:
    """Workers are killed on emulated hosts."""
    with cluster("racks") as layout:
        events, phases = partial(_on_hosts, layout, store), _with_aim(ON_HOSTS)
        return figures(WORKER, phases, store.name, _where(layout), events, trials)


def late(store: Store, trials: int) -> list[Figure]:
    """A node joins a job on emulated hosts late."""
    return _late("a late node starts", 1, store, trials)


def rack(store: Store, trials: int) -> list[Figure]:
    """The two nodes of a rack join a job on emulated hosts late, at once."""
    return _late("two late nodes start at once", 2, store, trials)


def _late(event: str, nodes: int, store: Store, trials: int) -> list[Figure]:
    phases = (
        Phase("the workers there make steps"),
        Phase("the longest step of the others meanwhile", LATE_STEP),
    )
    with cluster("racks") as layout:
        start = partial(_returning, layout, store, nodes)
        return figures(event, phases, store.name, _where(layout), start, trials)


def _with_aim(aim: Aim) -> Sequence[Phase]:
    """The phases of a killed worker, of which the first has an aim."""
    first, *others = WORKER_PHASES
    return [first._replace(aim=aim), *others]


def _where(layout: Layout) -> str:
    size = PER_HOST * len(layout.hosts)
    return f"{size} workers, {len(layout.hosts)} hosts"
