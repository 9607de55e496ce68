"""Training on digits that goes on when a worker is killed, and takes it back.

The batches are divided into a fixed number of shards, so the weights have the same bits
whoever is a member. Here the last worker is killed on purpose in epoch 3: the others go
on in their processes, and the launcher starts it again::

    collalgo run -n 4 --min 2 examples/elastic_digits.py --kill 3
    collalgo run -n 2 --min 1 examples/elastic_digits.py            # the same weights
"""

import argparse
import hashlib
import os
import signal

import numpy as np
from digits import BATCH, RATE, TESTED, Network
from sklearn.datasets import load_digits

from collalgo import Communicator, elastic

#: Of each batch: a multiple of the usual numbers of members, and at least one for each.
SHARDS = 12


@elastic.run
def train(comm: Communicator, state: elastic.State, kills: list[int], epochs: int):
    """Train to the last epoch, from wherever the state is."""
    images, labels = load_digits(return_X_y=True)
    images = images / 16
    network = Network(state.weights)
    print(f"epoch {state.batches.epoch}: {comm.size} members", flush=True)
    while (epoch := state.batches.epoch) < epochs:
        batch = TESTED + state.batches.take(BATCH)

        def gradient(k: int, batch=batch):
            mine = batch[k::SHARDS]
            loss, found = network.gradient(images[mine], labels[mine])
            return np.append(found, loss) * (len(mine) / len(batch))

        total = elastic.sum_shards(comm, SHARDS, gradient)
        state.weights -= RATE * total[:-1]
        state.loss = float(total[-1])
        if is_victim(epoch, kills) and state.batches.taken > TESTED:
            os.kill(os.getpid(), signal.SIGKILL)
        state.commit()
        if state.batches.epoch > epoch and comm.rank == 0:
            print(f"epoch {epoch + 1}: loss {state.loss:.4f}", flush=True)
    guesses = network.forward(images[:TESTED])[1].argmax(axis=1)
    return comm.rank, float((guesses == labels[:TESTED]).mean())


def is_victim(epoch: int, kills: list[int]) -> bool:
    """Whether this worker is to be killed now: the last one, once an epoch."""
    if epoch not in kills:
        return False
    is_last = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    return is_last and kills[restarts : restarts + 1] == [epoch]


def main() -> None:
    """Train with the workers of the launcher; the first member reports."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--kill", type=int, action="append", help="Epoch of a death.")
    given = parser.parse_args()
    network = Network.random(64, 10)
    state = elastic.State(
        weights=network.parameters,
        batches=elastic.Sampler(1797 - TESTED, seed=1),
        loss=0.0,
    )
    rank, accuracy = train(state, given.kill or [], given.epochs)
    if rank == 0:
        bits = hashlib.sha256(state.weights.tobytes()).hexdigest()[:16]
        print(f"accuracy {accuracy:.1%} on {TESTED} unseen digits, weights {bits}")


if __name__ == "__main__":
    main()
