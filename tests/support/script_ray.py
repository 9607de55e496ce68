"""What actors of Ray do in the tests: a script for an environment with Ray."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import ray
import torch
from ray.experimental import internal_kv as ray_store
from ray.util import collective

from collalgo.errors import BootstrapError
from collalgo.integrations import ray as ours
from collalgo.integrations.ray import BACKEND, register


def kinds():
    """Makers of the arrays that Ray takes, of the same numbers."""
    return lambda x: np.array(x, np.float32), lambda x: torch.tensor(x).float()


def same(found, expected):
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


@ray.remote
class Actor:
    def __init__(self, rank, size):
        register()
        register()  # as a library may have done
        self.rank, self.size = rank, size

    def begin(self, group, size=None):
        self.size = size or self.size
        collective.init_collective_group(self.size, self.rank, BACKEND, group)
        return True

    def give_up(self, group):
        """Create a group that not all actors create."""
        ours.JOIN_TIMEOUT, usual = 0.5, ours.JOIN_TIMEOUT
        try:
            self.begin(group)
        except BootstrapError:
            return True
        finally:
            ours.JOIN_TIMEOUT = usual

    def fail_to_close(self, group):
        """End a group whose communicator raises an error: the keys that are left."""
        collective.get_group_handle(group).comm.close = lambda: 1 / 0
        try:
            self.end(group)
        except ZeroDivisionError:
            return len(ray_store._internal_kv_list("collalgo/"))

    def end(self, group):
        collective.destroy_collective_group(group)

    def calls(self, group):
        for make in kinds():
            self.reductions(make, group)
            self.moves(make, group)
            self.messages(make, group)
        collective.barrier(group)
        return self.rank

    def reductions(self, make, group):
        rank, size, kind = self.rank, self.size, collective.types.ReduceOp
        numbers = np.arange(5) + 1
        expected = {
            kind.SUM: numbers * size * (size + 1) / 2,
            kind.MIN: numbers,
            kind.MAX: numbers * size,
            kind.PRODUCT: numbers**size * np.prod(np.arange(size) + 1),
        }
        for op, right in expected.items():
            found = make(numbers * (rank + 1))
            collective.allreduce(found, group, op)
            same(found, right)
        found = make(numbers * (rank + 1))
        collective.reduce(found, size - 1, group)
        same(found, expected[kind.SUM] if rank == size - 1 else numbers * (rank + 1))
        found = make(np.zeros(2))
        collective.reducescatter(found, [make([i, rank]) for i in range(size)], group)
        same(found, [rank * size, size * (size - 1) / 2])

    def moves(self, make, group):
        for root in range(self.size):
            found = make([self.rank, 7])
            collective.broadcast(found, root, group)
            same(found, [root, 7])
        rows = [make([0, 0]) for _ in range(self.size)]
        collective.allgather(rows, make([self.rank, 3]), group)
        same(np.stack([np.asarray(row) for row in rows])[:, 0], np.arange(self.size))

    def messages(self, make, group):
        found = make([self.rank])
        if self.rank == 0:
            collective.send(make([9]), 1, group)
        elif self.rank == 1:
            collective.recv(found, 0, group)
            same(found, [9])


def main(size):
    ray.init(num_cpus=size, include_dashboard=False, log_to_driver=True)
    register()
    actors = [Actor.remote(rank, size) for rank in range(size)]
    for group in "first", "second", "first":  # whose name is used again
        assert all(ray.get([each.begin.remote(group) for each in actors]))
        ranks = ray.get([each.calls.remote(group) for each in actors])
        assert ranks == list(range(size))
        ray.get([each.end.remote(group) for each in actors])
    for count in (size, size - 1, size) if size > 2 else ():  # of one name
        some = actors[:count]
        ray.get([each.begin.remote("g", count) for each in some])
        assert ray.get([each.calls.remote("g") for each in some]) == [*range(count)]
        ray.get([each.end.remote("g") for each in some])
    for some in actors[:1], actors[1:], actors[:-1]:  # before all try again
        assert all(ray.get([each.give_up.remote("g") for each in some]))
    ray.get([each.begin.remote("g") for each in actors])
    left = [ray.get(each.fail_to_close.remote("g")) for each in actors]
    assert left[-1] == 0, left
    print("collective: right")
    ray.shutdown()


os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
main(int(sys.argv[1]))
