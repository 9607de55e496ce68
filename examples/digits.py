"""Data-parallel training of a small network on handwritten digits, in plain NumPy.

Every rank holds a share of each batch and computes the gradient of its share; allreduce
averages the gradients, so all ranks take the same step. The training is the same for
any number of ranks, up to rounding::

    collalgo run -n 4 examples/digits.py
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import collalgo

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

#: A line for each digit, with its 8 x 8 pixels from 0 to 16 and its value: the test set
#: of "Optical Recognition of Handwritten Digits" (E. Alpaydin and C. Kaynak, 1998, UCI
#: Machine Learning Repository, https://doi.org/10.24432/C50P49, CC BY 4.0).
DATA = Path(__file__).with_name("digits.csv.gz")

#: A batch that 1, 2, 3 and 4 ranks share evenly, so that a mean of means is the mean.
BATCH = 60
HIDDEN = 64
RATE = 0.5
TESTED = 297


def load_digits() -> tuple[Array, Labels]:
    """The pixels of each digit, from 0 to 1, and its value."""
    table = np.loadtxt(DATA, delimiter=",")
    return table[:, :-1] / 16, table[:, -1].astype(np.int64)


@dataclass
class Network:
    """A network with one hidden layer, and all its parameters in one vector."""

    parameters: Array

    @classmethod
    def random(cls, inputs: int, classes: int, seed: int = 0) -> "Network":
        rng = np.random.default_rng(seed)
        first = rng.standard_normal((inputs + 1, HIDDEN)) / np.sqrt(inputs)
        second = rng.standard_normal((HIDDEN + 1, classes)) / np.sqrt(HIDDEN)
        return cls(np.concatenate([first.ravel(), second.ravel()]))

    def layers(self, inputs: int) -> tuple[Array, Array]:
        cut = (inputs + 1) * HIDDEN
        first = self.parameters[:cut].reshape(inputs + 1, HIDDEN)
        return first, self.parameters[cut:].reshape(HIDDEN + 1, -1)

    def forward(self, images: Array) -> tuple[Array, Array]:
        """The hidden layer and the probabilities of the classes."""
        first, second = self.layers(images.shape[1])
        hidden = np.maximum(with_bias(images) @ first, 0)
        scores = with_bias(hidden) @ second
        scores -= scores.max(axis=1, keepdims=True)
        odds = np.exp(scores)
        return hidden, odds / odds.sum(axis=1, keepdims=True)

    def gradient(self, images: Array, labels: Labels) -> tuple[float, Array]:
        """The mean loss of a batch and its gradient."""
        hidden, odds = self.forward(images)
        rows = np.arange(len(labels))
        loss = float(-np.log(odds[rows, labels]).mean())
        odds[rows, labels] -= 1
        odds /= len(labels)
        _, second = self.layers(images.shape[1])
        back = (odds @ second[:-1].T) * (hidden > 0)
        parts = with_bias(images).T @ back, with_bias(hidden).T @ odds
        return loss, np.concatenate([part.ravel() for part in parts])


def with_bias(x: Array) -> Array:
    """The input with a column of ones for the biases."""
    return np.hstack([x, np.ones((len(x), 1))])


def train(comm: collalgo.Communicator, epochs: int = 30) -> tuple[list[float], float]:
    """The loss after each epoch, and the accuracy on unseen digits."""
    images, labels = load_digits()
    order = np.random.default_rng(1).permutation(len(images))
    images, labels = images[order], labels[order]
    network = Network.random(images.shape[1], 10)
    collalgo.broadcast(network.parameters, comm)
    losses = []
    for _ in range(epochs):
        total = []
        for start in range(TESTED, len(images), BATCH):
            mine = slice(start + comm.rank, start + BATCH, comm.size)
            loss, gradient = network.gradient(images[mine], labels[mine])
            message = np.append(gradient, loss)
            collalgo.allreduce(message, comm, op="avg")
            network.parameters -= RATE * message[:-1]
            total.append(message[-1])
        losses.append(float(np.mean(total)))
    guesses = network.forward(images[:TESTED])[1].argmax(axis=1)
    return losses, float((guesses == labels[:TESTED]).mean())


def main() -> None:
    """Train on the ranks of the launcher, and report from rank 0."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    comm = collalgo.init()
    losses, accuracy = train(comm, arguments.epochs)
    if comm.rank == 0:
        print(
            f"loss {losses[0]:.4f} after epoch 1, {losses[-1]:.4f} after {len(losses)}"
        )
        print(f"accuracy {accuracy:.1%} on {TESTED} unseen digits, {comm.size} ranks")


if __name__ == "__main__":
    main()
