"""Nodes that hold the store of their job together: one loses its part, then itself."""

import os
import random
import secrets
import signal
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from collalgo.bench.disturbances.jobs import WORKERS, Command, Job, started
from collalgo.bench.disturbances.members import PATIENCE, SECRET
from collalgo.bench.disturbances.trials import ProcessEnded, Trials, trial

from collalgo.base.environment import SECRET as SECRET_VARIABLE
from collalgo.bootstrap.store.etcd_members import Members
from collalgo.bootstrap.store.race import Server
from collalgo.bootstrap.store.replicated import ReplicatedStore
from collalgo.launch.process import processes

#: Nodes of a job, each with a member of its store, and the workers of a node.
NODES, PER_NODE = 3, 2

#: The address of all nodes.
HERE = "127.0.0.1"

#: Trials in one job: the launcher of a node starts its member four times again.
OF_JOB = 3

#: Seconds after the loss of a member of the store in which steps are watched.
WATCHED = 1.0


def holder(program: str) -> Trials:
    """Kill the leading member of the store, then the node of the leading member.

    The times are the longest step in a second after the first, and of the second those
    until the others make steps again, and until all do.
    """
    while True:
        with _job(program) as (job, command, store):
            for _ in range(OF_JOB):
                with trial() as times:
                    times.append(_without_member(job, store))
                    times.extend(_without_node(job, command, store))
                yield times


@contextmanager
def _job(program: str) -> Iterator[tuple[Job, Command, ReplicatedStore]]:
    """A job of nodes on this host, the command of each, and their store."""
    servers = tuple((HERE, port) for port in _pairs(NODES))
    name = f"bench-{secrets.token_hex(4)}"
    url = "replicated://" + ",".join(f"{host}:{port}" for host, port in servers)
    words = ["--elastic", "--nodes", f"1:{NODES}", "--per-node", str(PER_NODE)]
    words += ["--rendezvous", url, "--id", name, "--max-restarts", "99"]
    run = [sys.executable, "-m", "collalgo", "run", *words]
    path = f"{Path(program).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {SECRET_VARIABLE.name: SECRET, "PATH": path}
    command = Command([*run, sys.executable, "-m", WORKERS, "collalgo"], variables)
    with started([command] * NODES, NODES * PER_NODE) as job:
        yield job, command, ReplicatedStore(servers, name, bytes.fromhex(SECRET))


def _pairs(count: int) -> Sequence[int]:
    """Free ports of which the next one is free, too.

    They are below those that Linux gives to sockets that ask for any port.
    """
    found: list[int] = []
    while len(found) < count:
        port = 2 * random.randrange(5000, 15000)
        with suppress(OSError), socket.socket() as one, socket.socket() as following:
            one.bind(("", port))
            following.bind(("", port + 1))
            found.append(port)
    return found if len({*found}) == count else _pairs(count)


def _without_member(job: Job, store: ReplicatedStore) -> float:
    """Kill the leading member of the store: the longest step of a worker meanwhile."""
    _, member = _leading(job, store)
    began = time.monotonic()
    os.kill(member, signal.SIGKILL)
    workers = NODES * PER_NODE
    return job.longest_step(began - 0.1, job.until(workers, workers, began + WATCHED))


def _without_node(
    job: Job, command: Command, store: ReplicatedStore
) -> tuple[float, float]:
    """Kill the node of the leading member: until the others go on, and until all do."""
    node, _ = _leading(job, store)
    left = (NODES - 1) * PER_NODE
    began = time.monotonic()
    os.kill(node, signal.SIGKILL)
    others = job.until(left, left, began, exactly=True)
    job.start(command)
    workers = NODES * PER_NODE
    return others - began, job.until(workers, workers, others) - began


def _leading(job: Job, store: ReplicatedStore) -> tuple[int, int]:
    """The launcher of the leading member, and the member, once all are at work."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        held = _members_of(job)
        leader = _leader(store.servers, store)
        if len(held) == NODES and leader is not None:
            return held[leader]
        time.sleep(0.05)
    raise ProcessEnded(f"the store has had no {NODES} members for {PATIENCE:g} s")


def _leader(servers: Sequence[Server], store: ReplicatedStore) -> int | None:
    """The number of the leading member; None unless all members follow one."""
    members = Members(servers, store.client_context())
    states = [members.status(each) for each in servers]
    if not all(states) or len({each.get("leader") for each in states}) > 1:
        return None
    numbers = [each["header"]["member_id"] for each in states]
    leader = states[0].get("leader")
    return numbers.index(leader) if leader in numbers else None


def _members_of(job: Job) -> dict[int, tuple[int, int]]:
    """The launcher and the process of each member of the store, by its number."""
    parents = {each.number: each.parent for each in processes()}
    launchers = {each.pid for each in job.launchers}
    found = {}
    for process, parent in parents.items():
        launcher = parents.get(parent, 0)  # a shell is between the two
        with suppress(OSError, ValueError):
            words = Path(f"/proc/{process}/cmdline").read_text().split("\0")
            if launcher in launchers and Path(words[0]).name == "etcd":
                number = int(words[words.index("--name") + 1].removeprefix("m"))
                found[number] = launcher, process
    return found
