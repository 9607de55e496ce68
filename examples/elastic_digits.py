"""Training on digits that goes on when a worker is killed, and takes it back.

The batches are divided into a fixed number of shards, so the weights have the same bits
whoever is a member. Here the last worker is killed on purpose in pass 3: the others go
on in their processes, and the launcher starts it again::

    collalgo run -n 4 --min 2 examples/elastic_digits.py --kill 3
    collalgo run -n 2 --min 1 examples/elastic_digits.py            # the same weights

With ``--plot FILE`` the first member draws the loss and the number of members.
"""

import argparse
import hashlib
import os
import signal

import numpy as np
from digits import BATCH, RATE, TESTED, Network, load_digits

from collalgo import Communicator, elastic

#: Of each batch: a multiple of the usual numbers of members, and at least one for each.
SHARDS = 12


@elastic.run
def train(comm: Communicator, state: elastic.State, kills: list[int], passes: int):
    """Train to the last pass over the data, from wherever the state is."""
    images, labels = load_digits()
    network = Network(state.weights)
    if comm.rank == 0:
        print(f"{comm.size} members in pass {state.batches.epoch + 1}", flush=True)
    while (done := state.batches.epoch) < passes:
        batch = TESTED + state.batches.take(BATCH)

        def gradient(k: int, batch=batch):
            mine = batch[k::SHARDS]
            loss, found = network.gradient(images[mine], labels[mine])
            return np.append(found, loss) * (len(mine) / len(batch))

        total = elastic.sum_shards(comm, SHARDS, gradient)
        state.weights -= RATE * total[:-1]
        die_if_chosen(done + 1, kills)
        if state.batches.epoch > done:
            state.curve.append([float(total[-1]), comm.size])
        state.commit()
        if state.batches.epoch > done and comm.rank == 0:
            print(f"pass {done + 1}: loss {state.curve[-1][0]:.4f}", flush=True)
    guesses = network.forward(images[:TESTED])[1].argmax(axis=1)
    return comm.rank, float((guesses == labels[:TESTED]).mean())


def die_if_chosen(number: int, kills: list[int]) -> None:
    """Kill this worker if it is the last one, and was not killed in this pass yet."""
    if number not in kills:
        return
    is_last = int(os.environ["RANK"]) == int(os.environ["WORLD_SIZE"]) - 1
    restarts = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    if is_last and kills[restarts : restarts + 1] == [number]:
        os.kill(os.getpid(), signal.SIGKILL)


def plot(curve: list[tuple[float, int]], path: str) -> None:
    """Draw the loss after each pass, and the number of members then."""
    import matplotlib.pyplot as plt

    losses, sizes = zip(*curve, strict=True)
    passes = range(1, len(curve) + 1)
    figure, (above, below) = plt.subplots(
        2, sharex=True, figsize=(8, 4), height_ratios=[3, 1], layout="constrained"
    )
    above.plot(passes, losses, marker=".")
    above.set(ylabel="loss", yscale="log")
    below.step(passes, sizes, where="mid", color="#b2182b")
    below.set(
        xlabel="passes over the data", ylabel="members", ylim=(0, max(sizes) + 0.5)
    )
    figure.savefig(path)


def arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--epochs", type=int, default=30, metavar="N",
        help="Number of passes over the data; default 30. With few passes the training "
        "ends before a killed worker has returned, which takes about a second.",
    )  # fmt: skip
    parser.add_argument(
        "--kill", type=int, action="append", metavar="PASS",
        help="Pass, from 1, in which the last worker is killed; repeatable; "
        "default none.",
    )  # fmt: skip
    parser.add_argument(
        "--plot", metavar="FILE", help="Picture of the loss to write; default none."
    )
    return parser.parse_args()


def main() -> None:
    """Train with the workers of the launcher; the first member reports."""
    given = arguments()
    network = Network.random(64, 10)
    state = elastic.State(
        weights=network.parameters,
        batches=elastic.Sampler(1797 - TESTED, seed=1),
        curve=[],
    )
    rank, accuracy = train(state, given.kill or [], given.epochs)
    if rank == 0:
        bits = hashlib.sha256(state.weights.tobytes()).hexdigest()[:16]
        print(f"accuracy {accuracy:.1%} on {TESTED} unseen digits, weights {bits}")
        if given.plot:
            plot(state.curve, given.plot)


if __name__ == "__main__":
    main()
