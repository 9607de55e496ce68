"""Time collectives of Ray over its gloo and over collalgo: a table of docs/clients.md.

In an environment with Ray and torch::

    python -m collalgo.bench.ray_calls

The two alternate in the same actors. The tables' times are medians over rounds of the
slowest actor, in microseconds; each round has a few calls in a row.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import click
import numpy as np
import ray
from collalgo.bench.clients import shown
from ray.util import collective

from collalgo.base.units import human
from collalgo.cli.group import SETTINGS
from collalgo.integrations.ray import BACKEND, register

#: The backends, and their groups of the same names.
BACKENDS = ("gloo", BACKEND)

#: The bytes of an array, and the calls of a round.
SIZES = {1 << 10: 20, 1 << 16: 10, 1 << 20: 3, 1 << 24: 1}


def calls(size: int, nbytes: int) -> Iterator[tuple[str, Callable[[str], Any]]]:
    """Some collectives on tensors of some bytes, each a function of the group."""
    import torch

    x = torch.ones(nbytes // 4)
    rows = [torch.empty(nbytes // 4) for _ in range(size)]
    yield "allreduce", lambda group: collective.allreduce(x, group)
    yield "broadcast", lambda group: collective.broadcast(x, 0, group)
    yield "allgather", lambda group: collective.allgather(rows, x, group)


class Caller:
    """A rank of groups of both backends."""

    def __init__(self, rank: int, size: int):
        register()
        self._rank, self._size = rank, size

    def join(self, backend: str) -> None:
        """Join the group of a backend."""
        collective.init_collective_group(self._size, self._rank, backend, backend)

    def times(self, rounds: int) -> list[list[float]]:
        """The seconds of a call: of each row of the table and backend, by rounds."""
        found = []
        for nbytes, repeats in SIZES.items():
            for _, call in calls(self._size, nbytes):
                rows = [
                    [timed(call, group, repeats) for group in BACKENDS]
                    for _ in range(rounds + 1)
                ]
                found += np.transpose(rows[1:]).tolist()
        return found


def timed(call: Callable[[str], Any], group: str, repeats: int) -> float:
    """The seconds of a call of several that all actors begin together."""
    collective.barrier(group)
    begin = time.perf_counter()
    for _ in range(repeats):
        call(group)
    return (time.perf_counter() - begin) / repeats


@click.command(context_settings=SETTINGS)
@click.option(
    "-n", "--ranks", default=2, show_default=True, type=click.IntRange(2),
    help="Number of actors.",
)  # fmt: skip
@click.option(
    "--rounds", default=30, show_default=True, type=click.IntRange(1),
    help="Rounds of each call.",
)  # fmt: skip
def main(ranks: int, rounds: int) -> None:
    """Compare collalgo with the gloo of Ray: microseconds, less is better."""
    ray.init(num_cpus=ranks, include_dashboard=False, log_to_driver=False)
    actor = ray.remote(Caller)
    callers = [actor.remote(rank, ranks) for rank in range(ranks)]
    for backend in BACKENDS:
        ray.get([each.join.remote(backend) for each in callers])
    times = ray.get([each.times.remote(rounds) for each in callers])
    middle = 1e6 * np.median(np.max(times, axis=0), axis=1)
    names = [(name, size) for size in SIZES for name, _ in calls(1, 4)]
    for (name, size), (theirs, ours) in zip(names, middle.reshape(-1, 2), strict=True):
        click.echo(f"| {name}, {human(size)} | {shown(theirs)} | {shown(ours)} |")
    ray.shutdown()


if __name__ == "__main__":
    main()
