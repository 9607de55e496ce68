"""Agents that are killed, members that are paused, an etcd that loses its leader."""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from collalgo.bench.disturbances.etcd import etcd, leader_of, on_this_host
from collalgo.bench.disturbances.members import PATIENCE, SECRET, Member, members
from collalgo.bench.disturbances.trials import Trials, trial

from collalgo.bootstrap.store.server import Server
from collalgo.launch.process import processes

#: Members of each job, and the least with which it continues.
MOST, LEAST = 3, 2

#: Where they run: on this host.
HERE: Sequence[Sequence[str]] = [()] * MOST

#: Seconds in which a member of etcd is back that is started again.
SETTLE_SECONDS = 1.0

#: The event of :func:`agent`, and its phase.
AGENT, AGENT_PHASE = "kill -9 of an agent", "its workers have ended"


def agent() -> Trials:
    """Kill the agent of a node of four ranks, and wait for the end of all of them."""
    while True:
        words = ["-n", "4", "--min", "1", "sleep", "1000"]
        launcher = subprocess.Popen([sys.executable, "-m", "collalgo", "run", *words])
        try:
            watched = [os.pidfd_open(each) for each in _ranks(launcher)]
            began = time.monotonic()
            launcher.kill()
            with trial() as times:
                for each in watched:
                    _await(each)
                times.append(time.monotonic() - began)
            yield times
        finally:
            launcher.kill()
            launcher.wait()


def _ranks(launcher: subprocess.Popen[bytes]) -> list[int]:
    """The four processes of a job, once all have begun to sleep."""
    end = time.monotonic() + PATIENCE
    while launcher.poll() is None and time.monotonic() < end:
        children = [p for p in processes() if p.parent == launcher.pid]
        ranks = [p.number for p in children if _name(p.number) == "sleep"]
        if len(ranks) == 4:
            return ranks
        time.sleep(0.05)
    raise TimeoutError(f"four ranks have not started within {PATIENCE:g} s")


def _name(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def _await(descriptor: int) -> None:
    """Wait for the end of a process that need not be a child."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    has_ended = poll.poll(PATIENCE * 1e3)
    os.close(descriptor)
    if not has_ended:
        raise TimeoutError(f"a process has not ended within {PATIENCE:g} s")


def pause(seconds: float) -> Trials:
    """Pause a member: the times until the others continue, and until it is back."""
    with closing(Server(bytes.fromhex(SECRET), "127.0.0.1")) as server:
        url = f"collalgo://127.0.0.1:{server.port}"
        with members(url, LEAST, HERE) as (made, first):
            epoch = first
            while True:
                with trial() as times:
                    epoch = _paused(made, epoch, seconds, times)
                yield times


def _paused(
    made: Sequence[Member], epoch: int, seconds: float, times: list[float]
) -> int:
    """Pause the last member after an epoch: the next epoch, and the times."""
    paused, others = made[-1], made[:-1]
    began = time.monotonic()
    paused.process.send_signal(signal.SIGSTOP)
    found = [each.until(MOST - 1, epoch) for each in others]
    times.append(max(each.time for each in found) - began)
    time.sleep(max(began + seconds - time.monotonic(), 0.0))
    resumed = time.monotonic()
    paused.process.send_signal(signal.SIGCONT)
    back = [each.until(MOST, epoch + 1) for each in made]
    times.append(max(each.time for each in back) - resumed)
    return back[0].epoch


def leader(options: Sequence[str], program: str = "") -> Trials:
    """Kill the leader of an etcd: until all members have joined another epoch."""
    with (
        etcd(on_this_host(3), options, program) as servers,
        members(servers.url, LEAST, HERE) as (made, first),
    ):
        epoch = first
        while True:
            victim = leader_of(servers)
            began = time.monotonic()
            servers.kill(victim)
            for each in made:
                each.process.send_signal(signal.SIGUSR1)
            with trial() as times:
                back = [each.until(MOST, epoch) for each in made]
                epoch = back[0].epoch
                times.append(max(each.time for each in back) - began)
            yield times
            servers.start(victim)
            time.sleep(SETTLE_SECONDS)
