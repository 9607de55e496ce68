"""The order in which the members of a job take the samples of a data set."""

from operator import index
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collalgo.base.arguments import shown, wrong_type
from collalgo.base.integers import integer

Indices = NDArray[np.int64]


class Sampler:
    """Takes each index of a data set exactly once an epoch, for any members.

    It gives all members the same next indices, of which each takes a share, for example
    by :func:`sum_shards`. As a value of a :class:`State` it goes back with the rest of
    the state after a failure, so that no index is lost or taken twice.

    Parameters
    ----------
    length
        The number of samples.
    seed
        Of the order, which is another one in each epoch: an integer of at least 0;
        None: in order.

    Attributes
    ----------
    epoch : int
        The epoch of the next index, from 0.
    taken : int
        The number of indices of this epoch that have been taken.

    Examples
    --------
    >>> from collalgo import elastic
    >>> sampler = elastic.Sampler(5, seed=None)
    >>> [sampler.take(2).tolist() for _ in range(4)]
    [[0, 1], [2, 3], [4], [0, 1]]
    >>> sampler.epoch
    1
    """

    def __init__(self, length: int, seed: int | None = 0):
        self._length = integer(length, "length", "Sampler", 1)
        self._seed = None if seed is None else _seed_of(seed)
        self.epoch = self.taken = 0
        self._order = self._order_of(0)

    def take(self, n: int) -> Indices:
        """The next indices, the same on all members: ``n`` or what the epoch has."""
        n = integer(n, "n", "take", 1)
        found: Indices = self._order[self.taken : self.taken + n].copy()
        self.taken += len(found)
        if self.taken == self._length:
            self._move(self.epoch + 1, 0)
        return found

    def state_dict(self) -> dict[str, Any]:
        """The position, for a state."""
        return {
            "length": self._length,
            "seed": self._seed,
            "epoch": self.epoch,
            "taken": self.taken,
        }

    def load_state_dict(self, found: dict[str, Any]) -> None:
        """Go to the position of another sampler.

        Raises
        ------
        ValueError
            If that was of another number of samples, or of another seed.
        """
        if found["length"] != self._length:
            raise ValueError(
                f"the state is of a sampler of {found['length']} samples, but this one "
                f"has {self._length}; use the same data set"
            )
        if found["seed"] != self._seed:
            raise ValueError(
                f"the state is of a sampler with seed {found['seed']}, but this one "
                f"has seed {self._seed}; pass the same seed on all members"
            )
        self._move(found["epoch"], found["taken"])

    def _move(self, epoch: int, taken: int) -> None:
        if epoch != self.epoch:
            self._order = self._order_of(epoch)
        self.epoch, self.taken = epoch, taken

    def _order_of(self, epoch: int) -> Indices:
        if self._seed is None:
            return np.arange(self._length)
        return np.random.default_rng((self._seed, epoch)).permutation(self._length)


def _seed_of(seed: Any) -> int:
    """A seed, of any length."""
    advice = "an integer of at least 0, or None for the order of the data set"
    try:
        number = index(seed)
    except TypeError:
        raise wrong_type("Sampler", "seed", seed, advice) from None
    if number < 0:
        raise ValueError(f"Sampler: seed is {shown(seed)}; pass {advice}")
    return number
