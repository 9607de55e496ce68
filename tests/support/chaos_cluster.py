"""A cluster of namespaces with a job: stores, agents, and what ranks tell."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from collalgo.bench.cluster.kernel import down, inside, processes, up
from collalgo.bench.disturbances.etcd import QUICK, Servers
from collalgo.bench.disturbances.partitions import place_on

from tests.support.clusters import layout
from tests.support.paths import SCRIPTS

#: Hosts, and ranks of each.
HOSTS, RANKS = 3, 2

#: Seconds that anything may take, however busy the machine is.
PATIENCE = 120.0


class Note(NamedTuple):
    """What a rank has told of itself: its last commit, and the size of its epoch."""

    process: int
    host: str
    step: int
    size: int


class Cluster:
    """The hosts of a job, with its stores and its agents.

    Parameters
    ----------
    folder
        For the notes, the ends, and the output of the job.
    """

    def __init__(self, folder):
        self.folder, self.layout = folder, layout("star")
        self.layout.name = f"chaos-{os.getpid()}"  # several may run at once
        self.hosts = self.layout.hosts[:HOSTS]
        self.agents, self.codes, self._logs = {}, [], 0
        for name in ("notes", "ends", "etcd", "tmp"):
            (folder / name).mkdir()
        up(self.layout)
        places = [place_on(self.layout, host) for host in self.hosts]
        self.stores = Servers(places, QUICK, str(folder / "etcd"))
        self.store_of = dict(zip(self.hosts, self.stores, strict=True))

    def start(self, host):
        """Start the agent of a host."""
        words = [
            *("run", "--elastic", "--nodes", f"1:{HOSTS}", "--per-node", str(RANKS)),
            *("--rendezvous", self.stores.url, "--id", "chaos"),
            *("--max-restarts", "99", sys.executable, SCRIPTS / "script_chaos.py"),
        ]
        env = {
            **os.environ,
            "COLLALGO_SECRET": "00ff",
            "COLLALGO_SILENCE": "2",
            "TMPDIR": str(self.folder / "tmp"),
            "UCX_TLS": "tcp,self",
            "UCX_LOG_LEVEL": "error",
        }
        self._logs += 1
        with (self.folder / f"log {self._logs} {host}").open("w") as log:
            self.agents[host] = subprocess.Popen(
                inside(self.layout, host, sys.executable, "-m", "collalgo",
                       *map(str, words), str(self.folder)),
                env=env, stdout=log, stderr=log,
            )  # fmt: skip

    def end(self, host, number):
        """End the agent of a host by a signal."""
        agent = self.agents.pop(host)
        agent.send_signal(number)
        agent.wait(PATIENCE)

    def notes(self):
        """What the ranks tell that are alive."""
        found = []
        for file in (self.folder / "notes").iterdir():
            process, host = file.name.split()
            words = file.read_text().split()
            if words and is_alive(int(process)):
                found.append(Note(int(process), host, *map(int, words)))
        return found

    def output(self):
        """The output of all agents."""
        return "\n".join(
            f"{file.name}\n{file.read_text()}"
            for file in sorted(self.folder.glob("log *"))
        )

    def listening(self):
        """What waits for connections on the hosts, but the stores."""
        found = []
        for host in self.hosts:
            listed = subprocess.run(
                inside(self.layout, host, "ss", "-Htlnp"),
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            found += [w for w in listed.stdout.splitlines() if '"etcd"' not in w]
        return found

    def left_over(self):
        """Processes, ports and files that the job has left."""
        files = [str(path) for path in (self.folder / "tmp").iterdir()]
        stores = set(self.stores.processes())
        left = [p for p in processes(self.layout) if p not in stores]
        return [*left, *self.listening(), *files]

    def close(self):
        """End everything."""
        self.stores.close()
        down(self.layout)
        for agent in self.agents.values():
            agent.wait()


def is_alive(process):
    with suppress(OSError):
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2]
        return state.split()[0] not in "ZX"
    return False


def until(happens, cluster):
    """Wait until something happens."""
    end = time.monotonic() + PATIENCE
    while not happens():
        assert time.monotonic() < end, (cluster.notes(), cluster.output())
        time.sleep(0.02)
