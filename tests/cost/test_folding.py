"""Representatives and one host of a cluster give the prices of all ranks."""

from functools import cache
from itertools import product

import numpy as np
import pytest

from collalgo import ALGORITHMS, Topology, TopologyError
from collalgo.algorithms.catalogue import find
from collalgo.algorithms.ring import along
from collalgo.cost.cluster_routing import ClusterRoutes
from collalgo.cost.folding import Traces, fold
from collalgo.cost.link_model import LinkModel
from collalgo.cost.messages import NOTHING, Messages, all_messages
from collalgo.cost.placement import Placement
from collalgo.cost.rounds import rounds
from collalgo.cost.routing import Routes
from collalgo.cost.symmetry import Symmetry
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.variants import twin_of, variants
from collalgo.topology.places import ranks_of
from tests.support.leisure import at_leisure

REDUCING = LinkModel(reduction=1e-10)


def in_order(messages):
    """The same transfers, regardless of the order within a step."""
    share = np.round(messages.share, 9)
    keys = (share, messages.lane, messages.peer, messages.kind, messages.rank)
    order = np.lexsort((*keys, messages.step))
    return Messages._make(column[order] for column in messages._replace(share=share))


def all_renumbered(schedule, size):
    return Traces(schedule, size).of(range(size))


SIZES = [1, 2, 3, 4, 6, 8, 12, 15, 16, 17, 24, 32]


@pytest.mark.parametrize(
    ("collective", "size"),
    at_leisure(
        product(COLLECTIVES, SIZES),
        {*product(COLLECTIVES, [1, 2, 3, 4]), ("allreduce", 6), ("allgather", 8)},
    ),
)
def test_representatives_give_the_transfers_of_all_ranks(collective, size):
    every = cache(lambda row: in_order(all_renumbered(row.schedule, size)))
    grids = [(d, size // d) for d in (2, 8) if size % d == 0]
    for plain in ALGORITHMS:
        if plain.collective != collective or plain.obstacle(size):
            continue
        for grid in grids or [(size,)]:
            hosts = [grid[0]] * (size // grid[0])
            for row in variants(plain, hosts, []):
                folded = fold(row.schedule, size, (grid,))
                found = in_order(folded.of(range(size)))
                for column, right in zip(found, every(row), strict=True):
                    assert np.array_equal(column, right), (row.name, folded.symmetry)


@pytest.mark.parametrize("size", at_leisure([2, 3, 5, 7, 8, 12, 16, 17], {2, 3, 5, 8}))
def test_representatives_give_the_transfers_of_every_root(size):
    grids = [(d, size // d) for d in (2, 4) if size % d == 0]
    for row in ALGORITHMS:
        if not COLLECTIVES[row.collective].rooted or row.obstacle(size):
            continue
        for root in range(size):
            traces = Traces(row.schedule, size, grids, root)
            right = in_order(traces.of(range(size)))
            found = in_order(fold(row.schedule, size, grids, root).of(range(size)))
            for column, expected in zip(found, right, strict=True):
                assert np.array_equal(column, expected), (row.name, root)


@pytest.mark.parametrize("size", [2, 6, 8, 12, 16, 32])
def test_twins_have_the_same_transfers(size):
    ranks_per_host = size // 2
    hosts, cycles = [ranks_per_host] * 2, [[*range(ranks_per_host)][::-1]]
    order = tuple(along(cycles[0], size))
    found = set()
    for plain in ALGORITHMS:
        if twin := twin_of(plain, size, cycles):
            found.add(plain.name)
            row = find(plain.collective, twin, size)
            if plain.name == "multi_ring":
                (plain,) = variants(plain, hosts, cycles)
                row = row.with_parameters({"order": order})
            columns = zip(
                in_order(all_renumbered(plain.schedule, size)),
                in_order(all_renumbered(row.schedule, size)),
                strict=True,
            )
            assert all(np.array_equal(*pair) for pair in columns), plain.name
    powers = {"binary_blocks"} if size in (2, 8, 16, 32) else set()
    assert found == {"multi_ring"} | powers


def test_a_ring_has_one_representative_and_a_tree_has_no_symmetry():
    assert fold(find("allreduce", "ring", 12).schedule, 12).symmetry == Symmetry.all(12)
    halving = fold(find("allreduce", "halving_doubling", 16).schedule, 16)
    assert halving.symmetry == Symmetry.all(2, 2, 2, 2)
    torus = find("allreduce", "torus_2d(dims=(4, 3))", 12)
    by_turns = Symmetry((2, 2, 3), (False, True, True))
    assert fold(torus.schedule, 12, ((4, 3),)).symmetry == by_turns
    cycles = tuple((*range(i, 8), *range(i)) for i in range(8))
    rings = find("allreduce", f"multi_ring(cycles={cycles})", 32)
    assert fold(rings.schedule, 32, ((8, 4),)).symmetry == Symmetry.all(8, 4)
    cycles = tuple((*range(i, 8), *range(i)) for i in range(0, 8, 2))
    rings = find("allreduce", f"multi_ring(cycles={cycles})", 32)
    symmetry = Symmetry((2, 4, 4), (False, True, True))
    assert fold(rings.schedule, 32, ((2, 4, 4), (8, 4))).symmetry == symmetry
    tree = fold(find("broadcast", "binomial", 12).schedule, 12)
    assert tree.symmetry.representatives == list(range(12))


@pytest.mark.parametrize(
    ("radices", "turns", "ranks_per_host", "period"),
    [
        ((128,), (True,), 8, 8),
        ((128,), (False,), 8, 128),
        ((2, 64), (False, True), 8, 8),
        ((8, 16), (False, True), 8, 8),
        ((16, 8), (False, True), 8, 16),
        ((3, 40), (True, True), 8, 120),
        ((32, 32), (True, True), 8, 8),
        ((12, 10), (False, True), 8, 120),
    ],
)
def test_a_symmetry_has_a_period_of_whole_hosts(radices, turns, ranks_per_host, period):
    assert Symmetry(radices, turns).period(ranks_per_host) == period


CLUSTERS = {
    "one NIC": lambda: Topology.load("dgx1v", hosts=4, nics=1),
    "two NICs": lambda: Topology.load("dgx1v", hosts=3, nics=2),
    "two leaves": lambda: Topology.load("dgx1v", hosts=4, nics=4, hosts_per_leaf=2),
    "tied NICs": lambda: Topology.load("server8", hosts=2, nics=8),
    "rails": lambda: Topology.load("dgx_a100", hosts=4, rail=True),
    "AMD": lambda: Topology.load("mi300x", hosts=2),
}


@pytest.mark.parametrize("name", at_leisure(CLUSTERS, {"two NICs", "tied NICs", "AMD"}))
def test_one_host_represents_all(name):
    topology = CLUSTERS[name]()
    cluster, size = UniformCluster.of(topology), len(ranks_of(topology))
    assert cluster is not None
    assert cluster.size == size
    every = Routes(topology, ranks_of(topology), REDUCING)
    alike = ClusterRoutes(cluster, link_model=REDUCING)
    placement = Placement(topology, link_model=REDUCING)
    for row in ALGORITHMS:
        if row.obstacle(size) is None:
            messages = all_messages(row.schedule, size)
            expected = rounds(messages, every).line
            assert rounds(messages, alike).line == pytest.approx(expected)
            found = placement.rounds(placement.fold(row.schedule)).line
            assert found == pytest.approx(expected), row.name


def test_hosts_that_differ_are_no_uniform_cluster():
    assert UniformCluster.of(Topology.load("dgx1v")) is None
    assert UniformCluster.of(Topology.load("torus", dims=(3, 3))) is None
    narrow = Topology.load("dgx1v", hosts=4, hosts_per_leaf=2, oversubscription=2.0)
    assert UniformCluster.of(narrow) is None
    far = Topology.load("dgx_a100", hosts=4, rail=True, hosts_per_leaf=2)
    assert UniformCluster.of(far) is None
    mixed = Topology.load("dgx1v", hosts=2)
    mixed.link("host1/gpu0", "host1/gpu5", "nvlink", 25.0)
    assert UniformCluster.of(mixed) is None


def test_a_cluster_needs_machines_of_one_host():
    with pytest.raises(TopologyError, match="gb200_nvl72 is 18 hosts, but a cluster"):
        UniformCluster.load("gb200_nvl72", hosts=300)


def test_ranks_in_the_same_order_on_every_host_still_fold():
    topology = Topology.load("dgx1v", hosts=2, nics=2)
    inside = [0, 3, 2, 1, 5, 6, 7, 4]
    devices = [f"host{h}/gpu{i}" for h in range(2) for i in inside]
    assert Placement(topology, devices).cluster is not None
    assert Placement(topology, devices[::-1]).cluster is None
    row = find("allreduce", "ring", 16)
    expected = rounds(all_messages(row.schedule, 16), Routes(topology, devices)).line
    placement = Placement(topology, devices)
    assert placement.rounds(placement.fold(row.schedule)).line == pytest.approx(
        expected
    )


@pytest.mark.parametrize("segments", [1, 2, 3, 7])
@pytest.mark.parametrize(
    ("collective", "name"),
    [("broadcast", "pipeline"), ("allreduce", "ring"), ("allreduce", "double_tree")],
)
def test_a_pipeline_is_priced_by_one_of_its_segments(collective, name, segments):
    placement = Placement(Topology.load("dgx1v"), link_model=REDUCING)
    one = find(collective, f"{name}(segments=1)", 8)
    all_of_them = find(collective, f"{name}(segments={segments})", 8)
    found = placement.rounds(placement.fold(one.schedule), segments)
    expected = placement.rounds(placement.fold(all_of_them.schedule))
    assert found.line == pytest.approx(expected.line)
    assert np.allclose(found.busy, expected.busy)


def test_a_million_ranks_are_priced_as_the_formula_says():
    cluster = UniformCluster.load("dgx1v", hosts=1 << 17, nics=4)
    row = find("allreduce", "torus_2d(dims=(1024, 1024))", cluster.size)
    placement = Placement(cluster)
    found = placement.rounds(placement.fold(row.schedule, (1024, 1024))).line
    # Rows cross from host to host on one NIC; of a column each NIC has two ranks.
    steps = 2 * 1023
    rows = steps / 1024 / 12.5e9
    columns = 2 * steps / 1024 / 1024 / 12.5e9
    assert found.latency == pytest.approx(2 * steps * 2.7e-6)
    assert found.per_byte == pytest.approx(rows + columns)


def test_messages_through_tied_nics_take_both():
    topology = Topology.load("server8", hosts=2, nics=8)
    routes = Routes(topology, ranks_of(topology))
    _, loads = routes.link_loads(np.array([0]), np.array([8]))
    out = {
        routes.directed_link(w)[0].ends for w in loads.link[loads.part == 0.5].tolist()
    }
    assert ("host0/nic0", "leaf0") in out
    assert ("host0/nic1", "leaf0") in out
    assert sum(loads.part[loads.part < 1]) == pytest.approx(4)


@pytest.mark.parametrize("size", [2, 3, 5, 8, 12, 17])
def test_traces_count_the_bytes_of_the_messages_that_they_know(size):
    traces = Traces(find("allreduce", "ring", size).schedule, size)
    before = traces.nbytes
    first = traces.partial_trace(range(1)).nbytes
    assert first > 0
    assert traces.nbytes > before + first  # with those that it is made of
    assert traces.nbytes >= before + traces.folded.messages.nbytes


class Growing:
    """Messages that are measured while another thread adds some."""

    def __init__(self, known):
        self._known = known

    @property
    def nbytes(self):
        self._known[len(self._known)] = NOTHING
        return 1


def test_traces_are_measured_while_other_threads_add_to_them():
    traces = Traces(along, 3)
    empty = traces.nbytes
    traces._partial_traces["first"] = Growing(traces._partial_traces)
    assert traces.nbytes == empty + 1
