"""Distinct values of an array, without the imports of numpy.unique."""

import subprocess
import sys

import numpy as np
import pytest

from collalgo.base.distinct import distinct


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 7, 8, 12, 16, 17, 33, 1000])
@pytest.mark.parametrize("span", [1, 2, 10, 1 << 62])
def test_they_are_those_of_numpy(count, span):
    rng = np.random.default_rng(count)
    values = rng.integers(-span, span, count)
    before = values.copy()
    for given in (values, values.reshape(1, -1), np.tile(values, (3, 1))):
        found, wanted = distinct(given), np.unique(given)
        assert found.dtype == wanted.dtype
        assert found.tolist() == wanted.tolist()
    assert values.tolist() == before.tolist()


FIRST_USE = """
import sys
import collalgo
import numpy as np

def mine(group):
    for step in range(1, group.size):
        yield collalgo.send(group.right, group.chunk(group.rank - step + 1)), \\
            collalgo.recv(group.left, group.chunk(group.rank - step))

def work(comm):
    x = np.ones(1000)
    for algorithm in (None, "ring", "one_shot", "halving_doubling"):
        collalgo.allreduce(x, comm, algorithm=algorithm)
    collalgo.allgather(x, comm, algorithm=mine)

collalgo.threads(work, 4)
slow = {"numpy.ma", "importlib.resources", "yaml", "click"} & set(sys.modules)
assert not slow, slow
"""


def test_neither_a_call_nor_a_proof_imports_what_takes_long():
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True, timeout=60)
