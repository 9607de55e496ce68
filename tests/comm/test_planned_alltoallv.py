"""A persistent alltoallv runs the schedule synthesised for its counts."""

from itertools import combinations

import numpy as np
import pytest

from collalgo import AlgorithmNotApplicable, Topology, threads
from collalgo.comm.current import runner_of
from collalgo.synthesis.synthesized import is_name
from collalgo.topology.model import Kind, LinkKind

SIZE = 4


def cores():
    """A host whose cores have links of their own: most blocks have several paths."""
    topology = Topology("cores", "a test")
    ends = [
        topology.add(f"host0/core{i}", Kind.CORE, host="host0") for i in range(SIZE)
    ]
    for one, other in combinations(ends, 2):
        topology.link(one, other, LinkKind.SMP, 1.0, latency=1e-6)
    return topology


def algorithms_of(comm):
    """The algorithms of all calls that the flight recorder has."""
    return [record["algorithm"] for record in runner_of(comm).recorder.records()]


def table_of(seed, most=40):
    """Rows from each rank to each: some none, one of them many."""
    chance = np.random.default_rng(seed)
    table = chance.integers(0, most, (SIZE, SIZE)) * (chance.random((SIZE, SIZE)) < 0.6)
    table[0, 1] = 50_000
    return table


def sent(rank, table, again=0):
    """What a rank sends: each row tells its sender and its receiver."""
    return np.repeat(100.0 * rank + np.arange(SIZE) + again, table[rank])


def received(rank, table, again=0):
    return np.repeat(100.0 * np.arange(SIZE) + rank + again, table[:, rank])


@pytest.mark.parametrize("seed", range(4))
def test_a_synthesised_alltoallv_is_right_for_any_counts(seed):
    def each(comm):
        comm.replan(Topology.load("cpu2s", hosts=1))
        table = table_of(seed)
        found = comm.alltoallv(sent(comm.rank, table), table, algorithm="synthesized")
        assert found.tolist() == received(comm.rank, table).tolist()
        assert is_name(algorithms_of(comm)[-1])

    threads(each, SIZE, timeout=60)


def test_a_persistent_alltoallv_takes_the_arrays_as_they_are():
    def each(comm):
        comm.replan(cores())
        table = table_of(9)
        buf = sent(comm.rank, table)
        call = comm.persistent_alltoallv(buf, table)
        mine = comm.persistent_alltoallv(buf, table[comm.rank])
        for again in range(3):
            buf[:] = sent(comm.rank, table, again)
            assert call().tolist() == received(comm.rank, table, again).tolist()
            assert mine().tolist() == received(comm.rank, table, again).tolist()
        ran = algorithms_of(comm)[-6:]
        assert is_name(ran[0])
        assert ran == ran[:1] * 6

    threads(each, SIZE, timeout=60)


def test_a_name_of_other_counts_is_refused():
    def each(comm):
        comm.replan(Topology.load("cpu2s", hosts=1))
        table = table_of(1)
        name = "synthesized(way='paths', rounds=4, pace='even', machine='01234567')"
        with pytest.raises(AlgorithmNotApplicable, match="machine"):
            comm.alltoallv(sent(comm.rank, table), table, algorithm=name)

    threads(each, SIZE, timeout=60)
