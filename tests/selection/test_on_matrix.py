"""Choices for an alltoallv: of all algorithms, by the bytes of each pair of ranks."""

import gc
import weakref

import numpy as np
import pytest

from collalgo import AlgorithmNotApplicable, Topology, TopologyError, bound, select
from collalgo.comm.planned_alltoallv import synthesized_name
from collalgo.cost.byte_matrix import ByteMatrix
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.selection import on_matrix
from collalgo.selection.decide import PRICE, Question, decide
from collalgo.selection.on_matrix import by_blocks, matrix_pricer
from collalgo.selection.on_topology import MOST_MATRICES, TopologyPricer
from collalgo.selection.overrides import PEERS
from collalgo.synthesis.planner import MOST_RANKS
from collalgo.synthesis.synthesized import steps_of
from collalgo.synthesis.traffic import Traffic
from collalgo.topology.model import Kind
from collalgo.topology.places import ranks_of
from tests.support.host_networks import network


def one_pair(size=8, nbytes=1 << 30):
    found = np.zeros((size, size), np.int64)
    found[0, 1] = nbytes
    return found


def test_one_large_block_takes_all_links_of_its_sender():
    topology = Topology.load("dgx1v")
    found = select("alltoallv", counts=one_pair(), topology=topology)
    alone = select(
        "alltoallv", counts=one_pair(), topology=topology, algorithm="linear"
    )
    assert found.algorithm.startswith("synthesized(")
    assert found.seconds * 5 < alone.seconds
    assert found.ratio < 1.1
    assert found.collective == "alltoallv"
    assert found.nbytes == 1 << 30


@pytest.mark.parametrize("seed", range(3))
def test_no_price_is_below_the_bound(seed):
    chance = np.random.default_rng(seed)
    nbytes = (2.0 ** chance.uniform(0, 30, (5, 5))).astype(int) * (
        chance.random((5, 5)) < 0.7
    )
    found = select("alltoallv", counts=nbytes, topology=network(5, seed=seed))
    for one in found.candidates:
        assert one.obstacle or one.seconds >= found.bound_seconds * (1 - 1e-6)


def test_equal_blocks_have_the_prices_of_an_alltoall():
    topology = Topology.load("dgx_h100")
    nbytes = np.full((8, 8), 1 << 20)
    for name in ("linear", "pairwise", "bruck"):
        one = select("alltoallv", counts=nbytes, topology=topology, algorithm=name)
        other = select("alltoall", 8 << 20, topology=topology, algorithm=name)
        assert one.seconds == pytest.approx(other.seconds, rel=1e-9)


def test_a_schedule_is_named_by_its_machine_and_bytes():
    topology = Topology.load("dgx1v")
    found = select("alltoallv", counts=one_pair(), topology=topology)
    again = select(
        "alltoallv", counts=one_pair(), topology=topology, algorithm=found.algorithm
    )
    assert again.seconds == found.seconds
    with pytest.raises(AlgorithmNotApplicable, match="the plan is for machine"):
        select(
            "alltoallv",
            counts=one_pair(nbytes=5),
            topology=topology,
            algorithm=found.algorithm,
        )


def test_a_pricer_keeps_the_prices_of_a_matrix():
    pricer, matrix = TopologyPricer(network(4)), ByteMatrix(one_pair(4))
    assert matrix_pricer(pricer, matrix) is matrix_pricer(
        pricer, ByteMatrix(one_pair(4))
    )


def test_ranks_of_a_topology_take_the_schedule_of_their_bytes():
    pricer = TopologyPricer(Topology.load("dgx1v"))
    name = synthesized_name(pricer, one_pair())
    assert name == select("alltoallv", counts=one_pair(), topology=pricer).algorithm
    assert synthesized_name(pricer, np.full((8, 8), 1)) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("alltoallv", 5), "needs counts"),
        (("alltoallv",), "needs counts"),
        (("alltoall",), "nbytes is missing for alltoall"),
        (("alltoallw", 5), "unknown collective 'alltoallw'"),
    ],
)
def test_a_question_that_lacks_its_bytes_is_refused(given, words):
    with pytest.raises((TypeError, ValueError), match=words):
        select(*given, topology=Topology.load("dgx1v"))


def test_counts_are_for_an_alltoallv_on_a_topology():
    with pytest.raises(ValueError, match="alltoall has counts"):
        select("alltoall", 8, counts=one_pair(), topology=Topology.load("dgx1v"))
    with pytest.raises(ValueError, match="counts and nbytes=8; leave nbytes out"):
        select("alltoallv", 8, counts=one_pair(), topology=Topology.load("dgx1v"))
    with pytest.raises(AlgorithmNotApplicable, match="pass topology="):
        select("alltoallv", counts=one_pair(), size=8)


def test_hosts_that_one_represents_have_no_matrix():
    cluster, nbytes = UniformCluster.load("dgx1v", hosts=4), np.ones((32, 32), int)
    with pytest.raises(TopologyError, match="the hosts of an alltoallv differ"):
        select("alltoallv", counts=nbytes, topology=cluster)
    with pytest.raises(TopologyError, match="the hosts of an alltoallv differ"):
        bound("alltoallv", cluster, counts=nbytes)


def test_the_bound_has_the_order_of_the_ranks():
    """Ranks that alternate between hosts: the first and the second are on two."""
    topology = Topology.load("dgx1v", hosts=2)
    devices = ranks_of(topology)
    alternating = [
        one for pair in zip(devices[:8], devices[8:], strict=True) for one in pair
    ]
    pricer = TopologyPricer(topology, devices=alternating)
    placed = TopologyPricer(topology)
    for target, other in ((1, 8), (2, 1), (8, 4)):
        one, same = np.zeros((2, 16, 16), np.int64)
        one[0, target] = same[0, other] = 1 << 30
        found, alike = (
            select("alltoallv", counts=counts, topology=of, algorithm="linear")
            for counts, of in ((one, pricer), (same, placed))
        )
        assert found.bound_seconds == pytest.approx(alike.bound_seconds)
        assert found.bound_seconds <= found.seconds * (1 + 1e-6)


def test_as_many_ranks_on_other_devices_have_no_bound_of_the_machine():
    topology = Topology.load("mi250x")
    for gpu in range(4):
        topology = topology.without(f"host0/gpu{gpu}")
    cpus = [one.id for one in topology.devices(Kind.CPU)]
    assert len(cpus) == len(ranks_of(topology))
    elsewhere = TopologyPricer(topology, devices=cpus)
    assert elsewhere.bound("allgather") is None
    assert matrix_pricer(elsewhere, ByteMatrix(one_pair(4))).bound("alltoall") is None
    assert TopologyPricer(topology).bound("allgather") is not None


@pytest.mark.parametrize("policy", PEERS)
def test_equal_blocks_have_the_choice_of_an_alltoall(policy):
    pricer = TopologyPricer(Topology.load("dgx1v"))
    for nbytes in (0, 1, 31, 32, 255, 256, 257, 4 << 10, 64 << 10, 1 << 20):
        counts = np.full((8, 8), nbytes)
        found = select("alltoallv", counts=counts, topology=pricer, policy=policy)
        alike = select("alltoall", 8 * nbytes, topology=pricer, policy=policy)
        assert found.decider == alike.decider
        if found.decider != PRICE:  # which knows more orders of the ranks of one
            assert found.algorithm == alike.algorithm


def test_rules_of_a_file_are_by_the_mean_buffer_of_a_rank(tmp_path, monkeypatch):
    path = tmp_path / "rules.yaml"
    sizes = "{sizes: {0: bruck, 400: linear}}"
    path.write_text(f"collalgo: rules/1\nrules:\n  alltoall: [{sizes}]\n")
    monkeypatch.setenv("COLLALGO_RULES", str(path))
    pricer = TopologyPricer(network(4))
    for nbytes, name in ((99, "bruck"), (100, "linear")):
        counts = np.full((4, 4), nbytes)
        found = select("alltoallv", counts=counts, topology=pricer)
        assert found.algorithm == name


def test_schedules_of_too_many_blocks_are_not_priced(monkeypatch):
    counts, topology = np.ones((8, 8), int), Topology.load("dgx1v")
    monkeypatch.setattr(on_matrix, "MOST_BLOCKS", 2 * 7 * 8)
    found = select("alltoallv", counts=counts, topology=topology)
    obstacles = {one.algorithm: one.obstacle for one in found.candidates}
    why = "its 192 blocks on 8 ranks take too long to price"  # 3 steps of 4 blocks
    assert obstacles["bruck"] == why
    assert not obstacles["linear"]
    variants = [name for name in obstacles if name.startswith("two_step")]
    assert not [name for name in variants if "segments" in name]
    asked = select("alltoallv", counts=counts, topology=topology, algorithm="bruck")
    assert asked.algorithm == "bruck"


def refused(*_):
    raise AssertionError("a matrix is priced")


@pytest.mark.parametrize(
    "machine",
    [
        Topology.load("fully_connected", hosts=MOST_RANKS + 1),
        UniformCluster.load("dgx1v", hosts=256),
    ],
)
def test_ranks_that_nothing_is_synthesised_for_price_no_matrix(machine, monkeypatch):
    """2048 ranks are more than a matrix has."""
    monkeypatch.setattr(on_matrix, "MatrixPricer", refused)
    monkeypatch.setattr(on_matrix, "ByteMatrix", refused)
    pricer = TopologyPricer(machine)
    assert synthesized_name(pricer, np.ones((pricer.size,) * 2, np.int64)) is None
    asked = Question("alltoall", 8, "synthesized", block_nbytes=(1,) * pricer.size**2)
    assert by_blocks(asked, pricer) == (asked, pricer)


def matrices(pricer, count):
    """Prices of matrices whose cheapest schedule is synthesised, each asked for."""
    for i in range(count):
        counts = one_pair(nbytes=(1 << 30) + i)
        assert synthesized_name(pricer, counts)
        yield matrix_pricer(pricer, ByteMatrix(counts))


def test_few_matrices_are_kept():
    pricer = TopologyPricer(Topology.load("dgx1v"))
    found = [weakref.ref(one.planner) for one in matrices(pricer, MOST_MATRICES + 2)]
    gc.collect()
    kept = [one() is not None for one in found]
    assert kept == [False] * 2 + [True] * MOST_MATRICES


def test_the_chosen_plan_is_kept_while_it_is_new(monkeypatch):
    monkeypatch.setenv("COLLALGO_CACHE", "off")
    (one,) = matrices(TopologyPricer(Topology.load("dgx1v")), 1)
    chosen = decide(Question("alltoall", 1 << 30), one).candidate.row
    monkeypatch.setattr(Traffic, "represented", refused)
    assert steps_of(chosen, 0).plan.size == 8
