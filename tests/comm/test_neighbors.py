"""Collectives among neighbors in a graph of the ranks."""

import networkx as nx
import numpy as np
import pytest

import collalgo
from collalgo import MismatchError, cartesian, threads, verify
from collalgo.algorithms.neighbors import UNIFORM, OnGraph
from collalgo.comm.current import runner_of
from collalgo.comm.differing import MOST_BYTES
from collalgo.cost.exact import exact

#: Graphs of five ranks: with loops, without edges, one-sided, dense.
GRAPHS = {
    "ring": [[1], [2], [3], [4], [0]],
    "star": [[1, 2, 3, 4], [0], [0], [0], [0]],
    "loops": [[0, 1], [1], [], [0, 3], [0, 1, 2, 3, 4]],
    "nothing": [[]] * 5,
    "all": [list(range(5))] * 5,
}


def sources_of(graph, rank):
    return [source for source, targets in enumerate(graph) if rank in targets]


def blocks_of(graph, rank):
    """A block of three elements for each target of a rank."""
    rows = [[10 * rank + to] * 3 for to in graph[rank]]
    return np.array(rows, int).reshape(-1, 3)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_neighbors_exchange_arrays(graph):
    def on_each_rank(comm):
        near, me = comm.neighbors(graph), comm.rank
        sources, sent = sources_of(graph, me), blocks_of(graph, me)
        assert (near.sources, near.targets) == (tuple(sources), tuple(graph[me]))
        found = near.allgather(np.full((2, 3), me))
        assert found.shape == (len(sources), 2, 3)
        assert found[:, 1, 2].tolist() == sources
        wanted = [10 * source + me for source in sources]
        assert near.alltoall(sent)[:, 2].tolist() == wanted
        out = np.empty((len(sources), 3), int)
        assert near.alltoall(sent, out=out) is out
        work = near.allgather_async(np.array(me))
        assert near.alltoall_async(sent).wait()[:, 0].tolist() == wanted
        assert work.wait().tolist() == sources

    threads(on_each_rank, 5, timeout=60)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_neighbors_exchange_any_number_of_rows(graph):
    def on_each_rank(comm):
        near, me = comm.neighbors(graph), comm.rank
        counts = [me + to for to in near.targets]
        received = [source + me for source in near.sources]
        rows = np.repeat(blocks_of(graph, me), counts, axis=0)
        wanted = np.repeat([10 * source + me for source in near.sources], received)
        for given in (None, received):
            got = near.alltoallv(rows, counts, given)
            assert got[:, 0].tolist() == wanted.tolist()

    threads(on_each_rank, 5, timeout=60)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_neighbors_join_arrays_of_any_lengths(graph):
    def on_each_rank(comm):
        near, me = comm.neighbors(graph), comm.rank
        rows = np.full((2 * me, 3), me)  # none of rank 0
        wanted = np.repeat(near.sources, [2 * source for source in near.sources])
        for found in (near.allgatherv(rows), near.allgatherv_async(rows).wait()):
            assert found.shape == (len(wanted), 3)
            assert found[:, 1].tolist() == wanted.tolist()
        out = np.zeros((len(wanted), 3), int)
        assert near.allgatherv(rows, out=out) is out
        assert out[:, 2].tolist() == wanted.tolist()

    threads(on_each_rank, 5, timeout=60)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 8, 12, 16, 17, 33])
def test_halos_of_any_lengths_move_in_rings_of_any_size(size):
    def on_each_rank(comm):
        near, me = comm.neighbors(cartesian([size], periodic=True)), comm.rank
        rows = np.full((me % 3, 2), me)
        wanted = [source for source in near.sources for _ in range(source % 3)]
        assert near.allgatherv(rows)[:, 0].tolist() == wanted
        counts = [(me + to) % 3 for to in near.targets]
        got = near.alltoallv(np.full(sum(counts), me), counts)
        wanted = [s for s in near.sources for _ in range((s + me) % 3)]
        assert got.tolist() == wanted

    threads(on_each_rank, size, timeout=60)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_calls_among_neighbors_are_prepared_once_and_made_again(graph):
    def on_each_rank(comm):
        near, me = comm.neighbors(graph), comm.rank
        own, blocks = np.zeros((3, 4))[:, ::2], np.zeros((len(near.targets), 2))
        stacked, pairs = (
            near.persistent_allgather(own),
            near.persistent_alltoall(blocks),
        )
        for value in (10, 20):
            own[:], blocks[:] = value + me, value + me
            wanted = [value + source for source in near.sources]
            assert stacked()[:, 2, 1].tolist() == wanted
            assert pairs()[:, 1].tolist() == wanted

    threads(on_each_rank, 5, timeout=60)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_counts_of_calls_that_are_prepared_are_exchanged_once(graph):
    def on_each_rank(comm):
        near, me = comm.neighbors(graph), comm.rank
        rows, sent = np.zeros(me % 3), np.zeros(2 * len(near.targets))
        joined = near.persistent_allgatherv(rows)
        pairs = near.persistent_alltoallv(sent, [2] * len(near.targets))
        for value in (10, 20):
            rows[:], sent[:] = value + me, value + me
            before = runner_of(comm).recorder.count
            wanted = [value + s for s in near.sources for _ in range(s % 3)]
            assert joined().tolist() == wanted
            found = pairs.start().wait()
            assert found[::2].tolist() == [value + s for s in near.sources]
            assert runner_of(comm).recorder.count == before + 2

    threads(on_each_rank, 5, timeout=60)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_schedules_among_neighbors_are_proved(graph, collective):
    fixed = tuple(map(tuple, graph))
    messages = sum(to != rank for rank, targets in enumerate(graph) for to in targets)
    for paced in (False, True):
        proof = verify(OnGraph(collective, fixed, paced), size=5)
        assert proof.links == messages
    wrong = OnGraph(collective, ((1,), (0,), (), (), ()))
    promised = OnGraph(collective, ((1,), (0, 2), (), (), ()))

    class Wrong(OnGraph):
        promise = promised.promise

    with pytest.raises(collalgo.ScheduleError, match="rank 2 ends"):
        verify(Wrong(wrong.collective, wrong.graph), size=5)


def test_the_cheaper_schedule_is_chosen_and_can_be_priced_on_a_topology():
    def on_each_rank(comm):
        near = comm.neighbors(cartesian((2, 2)))
        return near.schedule("alltoall", 1 << 20), near.schedule("allgather", 8)

    chosen = threads(on_each_rank, 4, timeout=60)
    assert len(set(chosen)) == 1
    for schedule in chosen[0]:
        topology = collalgo.Topology.load("dgx1v")
        ring = OnGraph(schedule.collective, tuple(map(tuple, cartesian([8], True))))
        made = collalgo.simulate(ring, topology, "1M", collective=ring.collective)
        assert made.seconds > 0


@pytest.mark.parametrize("collective", ["alltoall", "allgather"])
def test_a_price_among_neighbors_has_no_bound_of_all_ranks(
    collective,
):
    machine = collalgo.Topology.load("dgx1v")
    ring = OnGraph(collective, tuple(map(tuple, cartesian([8], True))))
    found = collalgo.simulate(ring, machine, "1G", collective=collective)
    assert found.bound is found.ratio is None
    assert f"sends only some of the data of a whole {collective}" in str(found)
    assert exact(ring, machine, collective=collective).bound is None
    with pytest.raises(collalgo.AlgorithmNotApplicable, match="performs"):
        collalgo.simulate(ring, machine, "1G", collective="broadcast")
    whole = collalgo.simulate("linear", machine, "1G", collective="alltoall")
    assert whole.bound
    assert "some of the data" not in str(whole)


def test_schedules_are_chosen_anew_after_a_replan_and_for_few_sizes():
    def on_each_rank(comm):
        near, programs = comm.neighbors(cartesian((2, 2))), runner_of(comm).programs
        for rows in range(1, 40):
            near.alltoallv(np.zeros((2 * rows, 4)), [rows] * 2, [rows] * 2)
        before = len(programs.on_graphs)
        comm.replan()
        return before, len(programs.on_graphs)

    assert set(threads(on_each_rank, 4, timeout=60)) == {(7, 0)}


def test_graphs_are_taken_in_every_form():
    forms = [
        {0: [1], 1: [2, 0]},
        [(1,), {0, 2}, []],
        nx.DiGraph([(0, 1), (1, 2), (1, 0)]),
        ([1], [2, 0], []),
    ]

    def on_each_rank(comm):
        found = {comm.neighbors(form).graph for form in forms}
        found.add(comm.neighbors(forms[-1][comm.rank]).graph)
        assert found == {((1,), (0, 2), ())}
        both = comm.neighbors(nx.path_graph(3))
        assert both.graph == ((1,), (0, 2), (1,))

    threads(on_each_rank, 3, timeout=60)


def test_a_grid_has_the_ranks_next_to_each():
    assert cartesian((2, 2), [True, False]) == [[1, 2], [0, 3], [0, 3], [1, 2]]
    assert cartesian([3], periodic=True) == [[1, 2], [0, 2], [0, 1]]
    assert cartesian([1], periodic=True) == [[]]
    grid = nx.grid_graph((3, 4, 2), periodic=True)  # the first dimension is the last
    order = sorted(grid)
    numbers = {node: place for place, node in enumerate(order)}
    wanted = [sorted(numbers[other] for other in grid[node]) for node in order]
    assert cartesian((2, 4, 3), periodic=True) == wanted
    for periodic in ([True], [True, False, True], 2, "yes", [1, 0]):
        with pytest.raises(ValueError, match="for 2 dimensions; pass True or False"):
            cartesian((2, 3), periodic)


def test_counts_have_one_for_each_neighbor():
    def on_each_rank(comm):
        near, lonely = comm.neighbors([1 - comm.rank]), comm.neighbors([[], []])
        with pytest.raises(ValueError, match="must be 1 number of rows, one for each"):
            near.alltoallv(np.ones(2), [1, 1])
        with pytest.raises(ValueError, match="must be 0 numbers of rows, one for each"):
            lonely.alltoallv(np.ones(0), [], [7])

    threads(on_each_rank, 2, timeout=60)


def test_wrong_graphs_are_refused():
    def on_each_rank(comm):
        with pytest.raises(ValueError, match=r"a neighbor.*2"):
            comm.neighbors([2])
        with pytest.raises(ValueError, match="neighbors of 1 ranks, but there are 2"):
            comm.neighbors([[1]])
        with pytest.raises(TypeError, match="graph is 3; pass the neighbors"):
            comm.neighbors(3)
        near = comm.neighbors([1 - comm.rank])
        with pytest.raises(ValueError, match="rank sends to 1 neighbor;"):
            near.alltoall(np.ones(2))
        with pytest.raises(ValueError, match="1 rows but counts add up to 2"):
            near.alltoallv(np.ones(1), [2])
        with pytest.raises(ValueError, match="'scan' is not a collective among"):
            near.schedule("scan", 8)
        with pytest.raises(ValueError, match="nbytes is -100"):
            near.schedule("alltoall", -100)
        with pytest.raises(MismatchError, match="passed different graphs"):
            comm.neighbors([[1], [0]] if comm.rank else [[1], []])
        assert near.allgather(np.array(comm.rank)) == 1 - comm.rank

    threads(on_each_rank, 2, timeout=60)


def test_an_array_without_axes_cannot_be_joined():
    def on_each_rank(comm):
        with pytest.raises(ValueError, match="allgatherv: needs an array with an axis"):
            comm.neighbors([1 - comm.rank]).allgatherv(np.array(1))

    threads(on_each_rank, 2, timeout=60)


def test_a_schedule_of_another_collective_is_refused():
    ring = OnGraph("alltoall", ((1,), (2,), (3,), (0,)))
    refused = "allreduce: the schedule performs alltoall"
    with pytest.raises(ValueError, match=refused):
        verify(ring, size=4, collective="allreduce")

    def on_each_rank(comm):
        comm.allreduce(np.ones(4), algorithm=ring)

    with pytest.raises(collalgo.AlgorithmNotApplicable, match=refused):
        threads(on_each_rank, 4, timeout=60)


def test_a_label_fits_in_the_record_of_a_call():
    for paced in (False, True):
        label = OnGraph("alltoall", ((1,), (0,)), paced, uniform_alltoall=True).label
        assert label.endswith(UNIFORM)
        assert len(label.encode()) <= MOST_BYTES


def test_errors_name_a_schedule_among_neighbors():
    ring = OnGraph("alltoall", ((1,), (2,), (0,)))
    with pytest.raises(collalgo.ScheduleError, match=f"^{ring.label}: rank 0 of 4"):
        verify(ring, size=4)
