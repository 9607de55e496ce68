"""The costs of an elastic job without failures: of a step, and of a commit.

``python -m collalgo.bench.disturbances.undisturbed TRIALS`` runs them on two ranks.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from collalgo.bench.disturbances.figures import Aim, Figure, Phase, figures
from collalgo.bench.disturbances.trials import Trials

from collalgo import Communicator, elastic
from collalgo.elastic.tree_sums import share

#: Ranks, shards, elements of the gradient.
RANKS, SHARDS, ELEMENTS = 2, 8, 100_000

#: Seconds of the computation of a step, and steps of a block of one kind.
BLOCKS = {0.01: 20, 0.1: 4}

#: Steps of a block without a computation.
EMPTY_BLOCK = 200

#: Elements of the state of 64 MiB.
LARGE = 16 << 20

#: The longest that a step may take compared with that of a plain communicator, and a
#: commit with a copy.
STEP_RATIO, COMMIT_RATIO = Aim(1.01), Aim(1.3)

#: With what the time of a step is compared.
OF_PLAIN = "of that with a plain communicator"

#: A step of a training.
Step = Callable[[], object]


class Steps:
    """Steps of the same training, on a plain communicator and as an elastic job.

    Parameters
    ----------
    comm
        The communicator of both.
    state
        With ``weights``.
    """

    def __init__(self, comm: Communicator, state: Any):
        self._comm, self._state = comm, state
        self._mine = share(SHARDS, comm.rank, comm.size)
        self._gradients = [np.full(ELEMENTS, k, np.float32) for k in range(SHARDS)]
        self._sum = np.empty(ELEMENTS, np.float32)
        self._data = np.linspace(0, 1, 2000, dtype=np.float32)
        self.rounds = 0

    def calibrate(self, seconds: float) -> int:
        """The rounds of a computation of the shards of a rank, for a step."""
        self.rounds, best = 100, np.inf
        for _ in range(20):
            began = time.perf_counter()
            self._gradient(0)
            best = min(best, time.perf_counter() - began)
        each = seconds / len(self._mine)
        found = np.array([round(each / best * self.rounds)])
        self._comm.allreduce(found, "max")
        return int(found[0])

    def _gradient(self, number: int) -> Any:
        """The gradient of a shard."""
        for _ in range(self.rounds):
            np.sin(self._data)
        return self._gradients[number]

    def plain(self) -> None:
        """A step with an allreduce of the gradient."""
        first, *others = self._mine
        np.copyto(self._sum, self._gradient(first))
        for number in others:
            np.add(self._sum, self._gradient(number), out=self._sum)
        self._comm.allreduce(self._sum)
        self._state.weights += self._sum

    def elastic(self) -> None:
        """The same with a sum over shards, and a commit."""
        self._state.weights += elastic.sum_shards(self._comm, SHARDS, self._gradient)
        self._state.commit()


def _seconds(step: Step, count: int) -> float:
    """The seconds of a step, in a block of some."""
    began = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - began) / count


def _medians(steps: Steps, count: int) -> tuple[float, float]:
    """The median seconds of some steps of each kind, plain and elastic, in turn."""
    pairs = [
        [_seconds(step, 1) for step in (steps.plain, steps.elastic)]
        for _ in range(count)
    ]
    plain, ours = np.median(np.array(pairs), axis=0)
    return float(plain), float(ours)


def _ratios(steps: Steps, seconds: float, trials: int) -> list[float]:
    """The ratio of both steps, with a computation of some seconds."""
    steps.rounds = steps.calibrate(seconds)
    pairs = [_medians(steps, BLOCKS[seconds]) for _ in range(trials)]
    return [ours / plain for plain, ours in pairs]


def _additions(steps: Steps, trials: int) -> list[float]:
    """The seconds that an elastic step without a computation takes longer."""
    pairs = [_medians(steps, EMPTY_BLOCK) for _ in range(trials)]
    return [ours - plain for plain, ours in pairs]


def _commits(trials: int) -> list[float]:
    """The ratio of a commit of 64 MiB and a copy of as many bytes."""
    state = elastic.State(weights=np.ones(LARGE, np.float32))
    target, found = np.ones(LARGE, np.float32), []
    for _ in range(trials + 2):
        copy = _seconds(lambda: np.copyto(target, state.weights), 1)
        found.append(_seconds(state.commit, 1) / copy)
    return found[2:]  # the first ones map the memory


def _on_each_rank(trials: int) -> None:
    @elastic.run
    def train(comm: Communicator, state: elastic.State) -> None:
        steps = Steps(comm, state)
        added = _additions(steps, trials)
        ratios = [_ratios(steps, seconds, trials) for seconds in BLOCKS]
        if comm.rank == 0:
            print(json.dumps([*ratios, added, _commits(trials)]), flush=True)
        comm.barrier()

    train(elastic.State(weights=np.zeros(ELEMENTS, np.float32)))


def _on_two_ranks(trials: int) -> Trials:
    """The costs in each trial, of which rank 0 tells at the end."""
    words = [sys.executable, "-m", "collalgo", "run", "-n", str(RANKS), "--min", "1"]
    words += [sys.executable, "-m", "collalgo.bench.disturbances.undisturbed"]
    done = subprocess.run(
        [*words, str(trials)], stdout=subprocess.PIPE, check=True, text=True
    )
    line = next(each for each in done.stdout.splitlines() if "[[" in each)
    yield from zip(*json.loads(line[line.index("[[") :]), strict=True)


def undisturbed(trials: int) -> list[Figure]:
    """The costs of a step and of a commit, on two ranks of this host."""
    phases = (
        *(
            Phase(f"a step of {seconds * 1e3:.0f} ms, {OF_PLAIN}", STEP_RATIO, "x")
            for seconds in BLOCKS
        ),
        Phase("what an elastic step without a computation adds", unit="us"),
        Phase("a commit of 64 MiB, of a copy", COMMIT_RATIO, "x"),
    )
    start, where = partial(_on_two_ranks, trials), f"{RANKS} ranks, 1 host"
    return figures("no failure", phases, "embedded", where, start, trials)


if __name__ == "__main__":
    _on_each_rank(int(sys.argv[1]))
