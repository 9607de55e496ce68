"""How long the survivors of a killed rank need until they are back in a collective.

``python -m collalgo.bench.recovery`` starts ranks of this host, kills one in the middle
of its calls, and takes the time until the last survivor has made its first allreduce on
the communicator of the survivors.
"""

import argparse
import os
import signal
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np

from collalgo.comm.communicator import Communicator
from collalgo.errors import CollalgoError, PeerFailed
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


def trial(size: int) -> list[float]:
    """Seconds from the kill to each of :data:`PHASES`, on the last survivor."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with suppress(CollalgoError):  # of the killed rank
            spawn(partial(_on_each_rank, folder=folder), size)
        back = [each.read_text().split() for each in folder.glob("back *")]
        assert len(back) == size - 1
        killed = float((folder / "killed").read_text())
        return [max(map(float, times)) - killed for times in zip(*back, strict=True)]


def main() -> None:
    """Print percentiles of some trials."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-R", "--ranks", type=int, default=4)
    parser.add_argument("--trials", type=int, default=30)
    given = parser.parse_args()
    found = np.array([trial(given.ranks) for _ in range(given.trials)]) * 1e3
    print(f"{given.ranks} ranks, one killed, {given.trials} trials; ms after the kill")
    for name, times in zip(PHASES, found.T, strict=True):
        p50, p99 = np.percentile(times, [50, 99])
        print(f"{name:<20} p50 {p50:6.1f}  p99 {p99:6.1f}  most {times.max():6.1f}")


if __name__ == "__main__":
    main()
