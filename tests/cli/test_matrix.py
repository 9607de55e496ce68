"""``--matrix`` of ``bound``, ``select`` and ``plan``: an alltoallv by its bytes."""

import re

import numpy as np
import pytest

from collalgo import Topology
from tests.support.commands import run

#: The number of ranks.
SIZE = 4

#: A machine of as many.
MESH = ("mesh", "dims=2x2")


@pytest.fixture
def nbytes():
    table = np.random.default_rng(5).integers(0, 1 << 24, (SIZE, SIZE))
    np.fill_diagonal(table, 0)
    return table


@pytest.fixture(autouse=True)
def matrix(tmp_path, monkeypatch, nbytes):
    """The option, with a file of the bytes."""
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "bytes.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in nbytes.tolist()))
    return "--matrix", str(path)


@pytest.fixture
def topology():
    return Topology.load("mesh", dims=(2, 2))


def test_a_failure_that_removes_a_rank_leaves_the_plans_of_other_collectives(matrix):
    words = ("plan", *MESH, "-c", "allgather", "-c", "alltoallv", "--size", "1M")
    shown = run(*words, *matrix, "--each-failure", "--one-of-equals")
    allgather, alltoallv = re.findall(r"host host0 +4 +(.*)", shown)
    assert re.match(r"3 +[0-9.]+ us .*cannot run", allgather)
    assert alltoallv.startswith("alltoallv: the matrix is for 4 ranks but there are 3")
    assert len(re.findall(r"network host0-host1 +4 +4 +[0-9.]+ [um]s", shown)) == 2
