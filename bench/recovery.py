"""How long the survivors of a killed rank need until they are back in a collective.

``python -m collalgo.bench.recovery`` starts ranks of this host, kills one in the middle
of its calls, and takes the time until the last survivor has made its first allreduce on
the communicator of the survivors. With ``--cluster`` they are ranks of emulated
hosts, which need root.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex

import numpy as np
from collalgo.bench.cluster.kernel import down, inside, up
from collalgo.bench.cluster.layout import Layout, layout_of_file
from collalgo.bench.cluster.running import UCX

from collalgo.base.environment import SECRET
from collalgo.comm.communicator import Communicator
from collalgo.comm.world import init
from collalgo.errors import CollalgoError, PeerFailed
from collalgo.launch.environment import free_port
from collalgo.launch.run_function import spawn

#: The number of calls before the kill.
CALLS = 100

#: What the survivors do, and when the last of them has done it.
PHASES = ("PeerFailed is raised", "shrink returns", "an allreduce returns")


def _on_each_rank(comm: Communicator, folder: Path) -> None:
    """Make calls; the last rank is killed, and the others go on without it."""
    x = np.ones(1000)
    try:
        for number in range(2 * CALLS):
            if comm.rank == comm.size - 1 and number == CALLS:
                (folder / "killed").write_text(str(time.monotonic()))
                os.kill(os.getpid(), signal.SIGKILL)
            comm.allreduce(x, "max")
    except PeerFailed:
        times = [time.monotonic()]
        left = comm.shrink()
        times.append(time.monotonic())
        left.allreduce(x, "max")
        times.append(time.monotonic())
        (folder / f"back {comm.rank}").write_text(" ".join(map(str, times)))


def trial(start: Callable[[Path], int]) -> list[float]:
    """Seconds from the kill to each of :data:`PHASES`, on the last survivor.

    ``start`` runs the ranks with a folder, and returns their number.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = start(folder)
        back = [each.read_text().split() for each in folder.glob("back *")]
        assert len(back) == size - 1
        killed = float((folder / "killed").read_text())
        return [max(map(float, times)) - killed for times in zip(*back, strict=True)]


def _on_this_host(folder: Path, size: int) -> int:
    with suppress(CollalgoError):  # of the killed rank
        spawn(partial(_on_each_rank, folder=folder), size)
    return size


def _on_hosts(folder: Path, layout: Layout) -> int:
    """Start ranks on all slots of a cluster, with the variables of a launcher."""
    first = layout.interfaces(layout.hosts[0])[0].address.partition("/")[0]
    where = {"MASTER_ADDR": first, "MASTER_PORT": str(free_port())}
    common = {**os.environ, **UCX, **where, SECRET.name: token_hex(16)}
    command = [sys.executable, "-m", "collalgo.bench.recovery", "--of", str(folder)]
    ranks: list[subprocess.Popen[bytes]] = []
    for host, slots in layout.slots.items():
        for local in range(slots):
            numbers = {"RANK": len(ranks), "WORLD_SIZE": layout.size}
            numbers |= {"LOCAL_RANK": local, "LOCAL_WORLD_SIZE": slots}
            env = {**common, **{name: str(n) for name, n in numbers.items()}}
            ranks.append(subprocess.Popen(inside(layout, host, *command), env=env))
    for each in ranks:
        each.wait()
    return layout.size


@contextmanager
def _cluster(file: Path) -> Iterator[Layout]:
    """A cluster that is up."""
    layout = layout_of_file(file)
    up(layout)
    try:
        yield layout
    finally:
        down(layout)


def main() -> None:
    """Print percentiles of some trials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", "-R", "--ranks", type=int, default=4)
    parser.add_argument("--cluster", type=Path, help="topology file of a cluster")
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--of", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.of is not None:  # a rank of a cluster
        _on_each_rank(init(), given.of)
    elif given.cluster is not None:
        with _cluster(given.cluster) as layout:
            _report(partial(_on_hosts, layout=layout), given.trials)
    else:
        _report(partial(_on_this_host, size=given.ranks), given.trials)


def _report(start: Callable[[Path], int], trials: int) -> None:
    found = np.array([trial(start) for _ in range(trials)]) * 1e3
    print(f"a rank is killed, {trials} trials; ms after the kill")
    for name, times in zip(PHASES, found.T, strict=True):
        p50, p99 = np.percentile(times, [50, 99])
        print(f"{name:<20} p50 {p50:6.1f}  p99 {p99:6.1f}  most {times.max():6.1f}")


if __name__ == "__main__":
    main()
