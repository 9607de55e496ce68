"""Another topology for a communicator that is in use."""

import numpy as np
import pytest

from collalgo import Topology, threads, trace
from collalgo.errors import MismatchError, TopologyError
from collalgo.topology import ranks

SIZE = 4


def server(slow=1.0):
    """A machine of 32 cores, of which one may have a slow link."""
    machine = Topology.load("cpu2s", hosts=1)
    return machine if slow == 1.0 else machine.degraded("core1", slow)


def sums(comm):
    """The sums of several sizes and kinds of calls, some of them of earlier sizes."""
    for count in (3, 5000, 3, 70_000):
        mine = np.full(count, comm.rank + 1.0)
        assert (comm.allreduce(mine.copy()) == 10).all()
        gathered = comm.allgatherv(mine[: comm.rank], [0, 1, 2, 3])
        assert gathered.tolist() == [2, 3, 3, 4, 4, 4]


def test_a_replan_reads_the_machine_again(monkeypatch):
    read, detect = [], ranks.detect
    monkeypatch.setattr(ranks, "detect", lambda **how: read.append(1) or detect(**how))

    def twice(comm):
        comm.replan()
        comm.replan()

    threads(twice, 1)
    assert len(read) == 2


def test_calls_are_right_and_chosen_by_the_new_topology():
    def each(comm):
        again = comm.persistent_allreduce(np.ones(9))
        sums(comm)
        before = comm.select("allreduce", 1 << 20)
        comm.replan(server())
        sums(comm)
        assert "cpu2s" not in before.basis
        assert "cpu2s" in comm.select("allreduce", 1 << 20).basis
        assert again()[0] == SIZE
        comm.replan(server(slow=0.01))
        sums(comm)
        slow = comm.select("allreduce", 1 << 20)
        comm.replan(server())
        assert slow.seconds > comm.select("allreduce", 1 << 20).seconds
        with comm.dup() as group:
            assert "cpu2s" in group.select("allreduce", 1 << 20).basis
            sums(group)

    threads(each, SIZE, timeout=60)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda comm, _: comm.replan(), "replan"),
        (lambda comm, _: Topology.of(comm), r"Topology\.of"),
        (lambda comm, path: trace(path, comm).__enter__(), "trace"),
    ],
)
def test_a_rank_that_makes_it_alone_is_told_by_its_name(call, name, tmp_path):
    def each(comm):
        with pytest.raises(MismatchError, match=f"rank 1 called {name}"):
            call(comm, tmp_path / "trace") if comm.rank == 1 else comm.barrier()

    threads(each, 2, timeout=60)


def test_the_topology_of_the_ranks_has_a_core_for_each():
    def each(comm):
        found = Topology.of(comm)
        assert [core.id for core in found.devices("core")] == [
            f"host0/rank{rank}" for rank in range(SIZE)
        ]
        comm.replan(found)
        assert found.name in comm.select("allreduce", 1 << 20).basis
        sums(comm)

    threads(each, SIZE, timeout=60)


def test_ranks_that_pass_different_topologies_are_told():
    def each(comm):
        with pytest.raises(ValueError, match="ranks 0 and 2 pass different topologies"):
            comm.replan(server(slow=0.5) if comm.rank == 2 else None)
        sums(comm)

    threads(each, SIZE, timeout=60)


def test_a_name_is_no_topology():
    def each(comm):
        with pytest.raises(TypeError, match="pass a Topology, as of"):
            comm.replan("cpu2s")
        sums(comm)

    threads(each, SIZE, timeout=60)


def test_a_host_needs_a_core_for_each_rank():
    def each(comm):
        with pytest.raises(TopologyError, match="has 0 cores but 4 ranks"):
            comm.replan(Topology.load("dgx1v"))
        sums(comm)

    threads(each, SIZE, timeout=60)


def test_nothing_changes_on_one_host_without_a_topology():
    def each(comm):
        sums(comm)
        before = comm.select("allreduce", 1 << 20)
        comm.replan()
        sums(comm)
        assert comm.select("allreduce", 1 << 20).algorithm == before.algorithm
        comm.replan(server())
        comm.replan()
        sums(comm)
        assert comm.select("allreduce", 1 << 20).basis == before.basis

    threads(each, SIZE, timeout=60)
