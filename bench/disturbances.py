"""How long elastic jobs need after a disturbance: a table of medians and percentiles.

``python -m collalgo.bench.disturbances agent pause leader`` makes each of the events
some times: it kills the agent of a node, pauses a member, or kills the leader of an
etcd of three members, which it starts.
"""

import argparse
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np

from collalgo import elastic
from collalgo.bootstrap.store.protocol import Fenced, StoreError
from collalgo.bootstrap.store.server import Server
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.launch.environment import free_port
from collalgo.launch.process import processes

#: Seconds that anything may take.
PATIENCE = 60.0

#: Members of each job, and those with which it goes on.
MOST, LEAST = 3, 2

#: Seconds after which a member that does not answer is lost.
SILENCE = 2.0

SECRET = "00ff"


class Joined(NamedTuple):
    """An epoch that a member has joined."""

    epoch: int
    size: int
    time: float


# ---- a member


def member(url: str, name: str) -> None:
    """Take part in a job, and commit steps; SIGUSR1 makes the members meet again."""
    settings = elastic.Settings(LEAST, MOST, last_call=0.1, silence=SILENCE)
    meeting = elastic.rendezvous(url, "bench", settings, name, bytes.fromhex(SECRET))
    assert isinstance(meeting, StoreRendezvous)
    asked: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
    while True:
        place = meeting.join()
        _tell("joined", place)
        asked.clear()
        while not asked and not _must_meet(meeting.change()):
            if not _commit(meeting, place):
                _tell("fenced", place)
                break
            time.sleep(0.005)


def _tell(what: str, place: elastic.Membership) -> None:
    told = [what, place.epoch, place.size, time.monotonic()]
    print(json.dumps(told), flush=True)


def _must_meet(change: elastic.MembershipChange | None) -> bool:
    """Whether a member was lost, or others wait."""
    return change is not None and (change.is_failure or change.waiting > 0)


def _commit(meeting: StoreRendezvous, place: elastic.Membership) -> bool:
    """Commit a step: False if this process is no longer a member."""
    assert place.fence is not None
    with suppress(StoreError):
        try:
            meeting.store.set("epoch/step", b"", fences=[place.fence])
        except Fenced:
            return False
    return True


class Member:
    """A member in a process of its own, and what it has told."""

    def __init__(self, url: str, name: str):
        words = [
            sys.executable,
            "-m",
            "collalgo.bench.disturbances",
            "member",
            url,
            name,
        ]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def until(self, size: int, after: int = 0) -> Joined:
        """Wait until it has joined an epoch of this size after another."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            kind, *told = json.loads(line)
            joined = Joined(*told)
            if kind == "joined" and joined.size == size and joined.epoch > after:
                return joined
        raise RuntimeError("a member has ended")

    def end(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def members(url: str) -> Iterator[tuple[list[Member], int]]:
    """The members of a job that all have joined, and the number of their epoch."""
    made = [Member(url, f"n{number}") for number in range(MOST)]
    try:
        yield made, max(each.until(MOST).epoch for each in made)
    finally:
        for each in made:
            each.end()


# ---- events


Times = Sequence[float]


def agent() -> Iterator[Times]:
    """Kill the agent of a node of four ranks, and wait until all of them are gone."""
    while True:
        words = ["-n", "4", "--min", "1", "sleep", "1000"]
        launcher = subprocess.Popen([sys.executable, "-m", "collalgo", "run", *words])
        try:
            ranks: list[int] = []
            while len(ranks) < 4:
                time.sleep(0.05)
                ranks = [
                    each for each, parent, _ in processes() if parent == launcher.pid
                ]
                ranks = [each for each in ranks if _name(each) == "sleep"]
            watched = [os.pidfd_open(each) for each in ranks]
            began = time.monotonic()
            launcher.kill()
            for each in watched:
                _await(each)
            yield [time.monotonic() - began]
        finally:
            launcher.kill()
            launcher.wait()


def _name(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def _await(descriptor: int) -> None:
    """Wait for the end of a process that need not be a child."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll(PATIENCE * 1e3)
    os.close(descriptor)


def pause(seconds: float) -> Iterator[Times]:
    """Pause a member for some seconds: until the others go on, and until it is back."""
    with closing(Server(bytes.fromhex(SECRET), "127.0.0.1")) as server:
        url = f"collalgo://127.0.0.1:{server.port}"
        with members(url) as (made, first):
            epoch = first
            while True:
                paused, others = made[-1], made[:-1]
                began = time.monotonic()
                paused.process.send_signal(signal.SIGSTOP)
                found = [each.until(MOST - 1, epoch) for each in others]
                time.sleep(max(began + seconds - time.monotonic(), 0.0))
                resumed = time.monotonic()
                paused.process.send_signal(signal.SIGCONT)
                back = [each.until(MOST, epoch + 1) for each in made]
                epoch = back[0].epoch
                went_on, is_back = (max(e.time for e in each) for each in (found, back))
                yield [went_on - began, is_back - resumed]


def leader() -> Iterator[Times]:
    """Kill the leader of an etcd: until all members have joined another epoch."""
    program = shutil.which("etcd")
    if program is None:
        raise SystemExit("etcd is not installed: apt-get install etcd-server")
    while True:
        with _cluster(program) as (url, servers), members(url) as (made, epoch):
            servers[_leader(servers)].kill()
            began = time.monotonic()
            for each in made:
                each.process.send_signal(signal.SIGUSR1)
            yield [max(each.until(MOST, epoch).time for each in made) - began]


@contextmanager
def _cluster(
    program: str,
) -> Iterator[tuple[str, dict[int, "subprocess.Popen[bytes]"]]]:
    """An etcd of three members: its URL, and the processes by their ports."""
    ports = [(free_port(), free_port()) for _ in range(3)]
    names = ",".join(f"e{i}=http://127.0.0.1:{p}" for i, (_, p) in enumerate(ports))
    with tempfile.TemporaryDirectory() as folder:
        made = {}
        for number, (client, peer) in enumerate(ports):
            at, among = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
            made[client] = subprocess.Popen(
                [program, "--name", f"e{number}", "--data-dir", f"{folder}/{number}",
                 "--listen-client-urls", at, "--advertise-client-urls", at,
                 "--listen-peer-urls", among, "--initial-advertise-peer-urls", among,
                 "--initial-cluster", names],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        try:
            _leader(made)
            yield "etcd://" + ",".join(f"127.0.0.1:{port}" for port in made), made
        finally:
            for each in made.values():
                each.kill()
                each.wait()


def _leader(servers: dict[int, "subprocess.Popen[bytes]"]) -> int:
    """The port of the leader of an etcd, once it has one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for port in servers:
            with suppress(URLError, OSError):
                url = f"http://127.0.0.1:{port}/v3/maintenance/status"
                with urlopen(Request(url, b"{}"), timeout=1) as answer:
                    found = json.load(answer)
                if found.get("leader") == found["header"]["member_id"]:
                    return port
        time.sleep(0.05)
    raise RuntimeError("etcd has no leader")


#: The events, and what is measured of each.
EVENTS: dict[str, tuple[str, ...]] = {
    "agent": ("kill -9 of an agent: its 4 ranks are gone",),
    "pause": ("SIGSTOP: the others go on", "SIGCONT: it is a member again"),
    "leader": ("etcd's leader killed: the members have met again",),
}


def main() -> None:
    """Print a table of the events that are named."""
    if sys.argv[1:2] == ["member"]:
        member(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("events", nargs="+", choices=list(EVENTS))
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--pause", type=float, default=30.0, help="seconds of a pause")
    given = parser.parse_args()
    makers: dict[str, Callable[[], Iterator[Times]]] = {
        "agent": agent, "pause": lambda: pause(given.pause), "leader": leader,
    }  # fmt: skip
    print(f"ms in {given.trials} trials; less is better")
    for event in given.events:
        with closing(makers[event]()) as trials:  # type: ignore[type-var]
            found = [next(trials) for _ in range(given.trials)]
        for name, times in zip(EVENTS[event], np.array(found).T * 1e3, strict=True):
            p50, p99 = np.percentile(times, [50, 99])
            print(f"{name:<50} p50 {p50:7.0f}  p99 {p99:7.0f}  most {times.max():7.0f}")


if __name__ == "__main__":
    main()
