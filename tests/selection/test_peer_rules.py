"""Tuning files of peers hold what was decided, by the rules of each peer."""

import csv
import json
from configparser import ConfigParser
from math import inf

import pytest

from collalgo import Topology
from collalgo.algorithms.catalogue import named
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.overrides import PEERS as POLICIES, rules_of
from collalgo.selection.peer_rules import mpich, nccl, openmpi, ucc
from collalgo.selection.peer_rules.algorithms import (
    DEFAULT,
    PEERS,
    algorithms_of,
    base_and_parameters,
    find,
    ours,
)
from collalgo.selection.peer_rules.priced import priced_table
from collalgo.selection.policies.nccl import COLLECTIVES, World, choose

SIZES = (0, 8, 4095, 4096, 65535, 65536, 1 << 30)


@pytest.fixture(scope="module")
def pricer():
    return TopologyPricer(Topology.load("dgx1v", hosts=2))


def chosen(sizes, nbytes):
    """The name for a size in a table."""
    return sizes[max(least for least in sizes if least <= nbytes)]


def test_every_algorithm_of_a_peer_has_its_equal_in_the_catalogue():
    for peer in PEERS:
        for collective, algorithms in algorithms_of(peer).items():
            assert len({one.name for one in algorithms}) == len(algorithms)
            for name in (name for one in algorithms for name in one.ours):
                assert named(ours(collective), name)


def test_policies_name_algorithms_that_the_peer_has():
    missing = {
        (peer, collective, name)
        for peer in {*POLICIES} & {"openmpi", "mpich"}
        for collective, rules in rules_of(peer).table.items()
        for rule in rules
        for _, name in rule.sizes
        if not any(
            name in one.ours
            for theirs, algorithms in algorithms_of(peer).items()
            if ours(theirs) == collective
            for one in algorithms
        )
    }
    # Of MPI_Reduce_scatter, which is not the call for equal blocks.
    assert missing == {("openmpi", "reduce_scatter", "ring")}


OPENMPI = {
    "allreduce": {
        2: {0: DEFAULT, 4096: "ring", 65536: "segmented_ring(segsize=65536)"},
        4: {0: "recursive_doubling"},
    },
    "bcast": {4: {0: "chain(fanout=4, segsize=65536)", 4096: DEFAULT}},
}


def classic(text):
    """The rules of a file as Open MPI 5 reads it: by collective and number of ranks."""
    words = " ".join(line.partition("#")[0] for line in text.splitlines()).split()
    numbers = iter(map(int, words))
    rules = {}
    for _ in range(next(numbers)):
        collective = next(numbers)
        for _ in range(next(numbers)):
            ranks = next(numbers)
            rules[collective, ranks] = [
                [next(numbers) for _ in range(4)] for _ in range(next(numbers))
            ]
    assert next(numbers, None) is None
    return rules


def of_classic(rules, collective, ranks, nbytes):
    """The number, fanout and segment for a call: of the last that is not above."""
    below = [n for number, n in rules if number == collective and n <= ranks]
    found = [rule for rule in rules[collective, max(below)] if rule[0] <= nbytes]
    return tuple(found[-1][1:])


def of_json(document, collective, ranks, nbytes):
    """The same for JSON: of the first that fits."""
    for one in document["collectives"].get(collective, ()):
        if one["comm_size_min"] <= ranks <= one["comm_size_max"]:
            for rule in one["rules"]:
                most = rule["msg_size_max"]
                if rule["msg_size_min"] <= nbytes <= (1e30 if most == "inf" else most):
                    return rule["alg"], rule["faninout"], rule["seg_size"]
    return 0, 0, 0


def test_open_mpi_finds_the_algorithm_in_both_formats():
    rules = classic(openmpi.text_of(OPENMPI, "# a mark of 2"))
    document = json.loads(openmpi.json_of(OPENMPI, "a mark"))
    for collective, by_ranks in OPENMPI.items():
        for ranks in (1, 2, 3, 4, 5, 64):
            for nbytes in SIZES:
                name = chosen(by_ranks.get(ranks, {0: DEFAULT}), nbytes)
                expected = (0, 0, 0)
                if name != DEFAULT:
                    parameters = base_and_parameters(name)[1]
                    number = find("openmpi", collective, name).number
                    more = (
                        int(parameters.get(key, 0)) for key in ("fanout", "segsize")
                    )
                    expected = (number, *more)
                place = openmpi.NUMBERS[collective], ranks, nbytes
                assert of_classic(rules, *place) == expected
                assert of_json(document, collective, ranks, nbytes) == expected


def test_an_algorithm_of_open_mpi_is_forced_by_its_number():
    assert openmpi.settings("bcast", "chain(fanout=4, segsize=65536)") == {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_bcast_algorithm": "2",
        "OMPI_MCA_coll_tuned_bcast_algorithm_chain_fanout": "4",
        "OMPI_MCA_coll_tuned_bcast_algorithm_segmentsize": "65536",
    }


def test_the_lines_of_nccl_cover_all_sizes_once():
    world = World(16, 2, 50.0, 12, True, 70)
    shapes = {0: "tree", 600000: "ring"}
    table = {"allreduce": {16: shapes}, "allgather": {16: {0: "pat"}}}
    text = nccl.text_of(table, "a mark", world)
    rows = list(csv.reader(line for line in text.splitlines() if line[0] != "#"))
    assert all(row[5:] == ["-1", "2", "16"] for row in rows)
    assert [row[:5] for row in rows if row[0] == "allgather"] == [
        ["allgather", "0", str(nccl.LARGEST), "pat", "simple"]
    ]
    for nbytes in (0, 599999, 600000, 1 << 20, 1 << 40):
        fitting = [
            row[3:5]
            for row in rows
            if row[0] == "allreduce" and int(row[1]) <= nbytes <= int(row[2])
        ]
        shape = chosen(shapes, nbytes)
        _, protocol = choose("allreduce", world, nbytes, (shape,))
        assert fitting == [[shape, protocol.lower()]]


def test_the_tokens_of_ucc_cover_ranges_of_sizes():
    table = {"allreduce": {4: {0: "knomial", 4096: "ring"}, 8: {0: "dbt"}}}
    text = ucc.text_of(table, "a mark")
    file = ConfigParser()
    file.read_string(f"[all]\n{text}")
    assert file["all"]["ucc_tl_ucp_tune"].split("#") == [
        "allreduce:0-4096:[4-4]:@knomial",
        "allreduce:4096-inf:[4-4]:@ring",
        "allreduce:0-inf:[8-8]:@dbt",
    ]


@pytest.mark.parametrize("peer", PEERS)
def test_prices_choose_the_cheapest_equal(peer, pricer):
    table = priced_table(peer, pricer)
    assert "allreduce" in table
    for collective, by_ranks in table.items():
        (sizes,) = by_ranks.values()
        assert [*by_ranks] == [16]
        assert next(iter(sizes)) == 0
        if peer == "openmpi" and collective in openmpi.SIZELESS:
            assert len(sizes) == 1
            continue
        able = [one for one in algorithms_of(peer)[collective] if one.fits(16, 2)]
        for nbytes in (64, 65537, 1 << 24):
            prices = {}
            for one in able:
                found = [price(pricer, peer, collective, x, nbytes) for x in one.ours]
                prices[one.name] = min(found, default=inf)
            name = chosen(sizes, nbytes)
            assert prices[name] == pytest.approx(min(prices.values()))
    assert peer != "nccl" or {*table} <= {x.replace("_", "") for x in COLLECTIVES}


def price(pricer, peer, collective, name, nbytes):
    row = pricer.find(ours(collective), name)
    if peer == "nccl":
        return float(pricer.choices_among([row]).at(nbytes).price.seconds(nbytes))
    return float(pricer.price_one(row).price.seconds(nbytes))


def test_collectives_whose_ranks_know_no_common_size_have_one_algorithm(pricer):
    """As the count of a scatter is that of the root only."""
    table = priced_table("openmpi", pricer)
    assert all(len(table[name][16]) == 1 for name in openmpi.SIZELESS)


def test_the_hosts_of_a_cluster_are_treated_alike():
    assert openmpi.environment("f", 2)["OMPI_MCA_coll_han_priority"] == "0"
    assert mpich.environment("f", 2)["MPIR_CVAR_BCAST_COMPOSITION"] == "3"
    assert mpich.environment("f")[mpich.SHARED_FILE] == "f.shared"
    assert nccl.environment("f")["NCCL_TUNER_CONFIG_FILE"] == "f"
    assert ucc.environment("f") == {"UCC_CONFIG_FILE": "f"}
