"""Overrides of the price: an argument, the environment, a rules file, a peer."""

import json
import os

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import AlgorithmNotApplicable, RulesError, Topology, select, threads
from collalgo.cli.main import main
from collalgo.selection.on_host import ALIKE
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.policies.nccl import World, choose
from collalgo.selection.rules import Rules, of_peer

MINE = """
collalgo: rules/1
name: mine
blocks: [alltoall]
rules:
  allreduce:
    - {ranks: 2..3, sizes: {0: one_shot, 4096: ring}}
    - {ranks: 4.., power_of_two: true, sizes: {100: halving_doubling}}
    - {ranks: 5, sizes: {0: "ring(segments=2)"}}
  alltoall:
    - {ranks: 1.., sizes: {0: bruck, 100: pairwise}}
"""


def test_the_first_rule_that_fits_the_ranks_counts():
    rules = Rules.of_text(MINE, "mine.yaml")
    found = [rules.choose("allreduce", 3, n) for n in (0, 4095, 4096, 1 << 30)]
    assert found == ["one_shot", "one_shot", "ring", "ring"]
    assert rules.choose("allreduce", 8, 99) is None
    assert rules.choose("allreduce", 8, 100) == "halving_doubling"
    assert rules.choose("allreduce", 5, 8) == "ring(segments=2)"
    assert rules.choose("allreduce", 6, 8) is None
    assert rules.choose("broadcast", 8, 8) is None


def test_sizes_of_blocks_are_those_of_one():
    rules = Rules.of_text(MINE, "mine.yaml")
    assert rules.choose("alltoall", 8, 799) == "bruck"
    assert rules.choose("alltoall", 8, 800) == "pairwise"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("rules: {}", "first line must be"),
        ("collalgo: rules/1\nrules: 3", "must map collectives"),
        ("collalgo: rules/1\nrules: {sum: []}", "no collective 'sum'"),
        ("collalgo: rules/1\nrules: {scan: [{ranks: 4}]}", "must have ranks and"),
        (
            "collalgo: rules/1\nrules: {scan: [{ranks: x, sizes: {0: linear}}]}",
            "ranks must be as",
        ),
        (
            "collalgo: rules/1\nrules: {scan: [{ranks: 4, sizes: {0: rign}}]}",
            "no algorithm 'rign'",
        ),
        (
            "collalgo: rules/1\nrules: {scan: [{ranks: 4, sizes: {a: linear}}]}",
            "'a' is not a size",
        ),
        (
            "collalgo: rules/1\nrules: {scan: [{rank: 4, sizes: {0: linear}}]}",
            "unknown key rank",
        ),
        ("a: &b [1]\nc: *b", "aliases"),
        (": :\n-", "invalid YAML"),
    ],
)
def test_what_is_no_file_of_rules_is_refused(tmp_path, text, what):
    path = tmp_path / "rules.yaml"
    path.write_text(text)
    with pytest.raises(RulesError, match=what):
        Rules.read(path)


def test_a_file_that_is_too_large_or_missing_is_refused(tmp_path):
    with pytest.raises(RulesError, match="No such file"):
        Rules.read(tmp_path / "none.yaml")
    (tmp_path / "large.yaml").write_text("#" * (1 << 20) + "#")
    with pytest.raises(RulesError, match="more than"):
        Rules.read(tmp_path / "large.yaml")


@pytest.mark.parametrize(
    ("peer", "collective", "size", "nbytes", "algorithm"),
    [
        ("openmpi", "allreduce", 4, 8, "ring"),
        ("openmpi", "allreduce", 4, 16, "recursive_doubling"),
        ("openmpi", "allreduce", 128, 1 << 20, "halving_doubling"),
        ("openmpi", "allgather", 31, 1 << 30, "recursive_doubling"),
        ("openmpi", "alltoall", 8, 8 << 18, "linear"),
        ("openmpi", "broadcast", 2, 1 << 20, "binary"),
        ("mpich", "allreduce", 8, 8, "recursive_doubling"),
        ("mpich", "allreduce", 8, 9, "halving_doubling"),
        ("mpich", "broadcast", 7, 1 << 30, "binomial"),
        ("mpich", "broadcast", 8, 12289, "van_de_geijn_doubling"),
        ("mpich", "broadcast", 9, 12289, "van_de_geijn"),
        ("mpich", "alltoall", 8, 8 * 256, "bruck"),
        ("mpich", "alltoall", 8, 8 * 257, "linear"),
        ("gloo", "allreduce", 8, 8, "segmented_ring"),
    ],
)
def test_peers_choose_as_their_sources_say(peer, collective, size, nbytes, algorithm):
    assert of_peer(peer).choose(collective, size, nbytes) == algorithm


def test_nccl_uses_trees_for_short_messages_at_scale_and_rings_for_long_ones():
    one = World(8, 1, 120.0, 12, True, 70)
    many = one._replace(ranks=1024, hosts=128, bandwidth=50.0)
    assert choose("allreduce", many, 1 << 10)[0] == "tree"
    assert choose("allreduce", many, 1 << 16)[0] == "tree"
    assert choose("allreduce", many, 16 << 30)[0] == "ring"
    assert choose("allreduce", one, 1 << 30) == ("ring", "Simple")
    assert choose("allgather", many, 8) == ("ring", "LL")


def test_the_model_of_nccl_adds_up_to_the_microsecond():
    """LL ring of two hosts with 16 ranks: base, 28 hops inside, 2 across, and bytes."""
    from collalgo.selection.policies.nccl import _microseconds

    world = World(16, 2, 50.0, 12, True, 70)
    found = _microseconds("allreduce", world, 1 << 20, "ring", 0)
    bandwidth = min(39.0, 25.0) * 16 / 30
    assert found == pytest.approx(6.6 + 28 * 1.0 + 2 * 2.7 + 2**20 / 1e3 / bandwidth)


def test_it_is_said_that_an_argument_has_decided():
    assert select("allreduce", 8, size=4).decider == "price"
    chosen = select("allreduce", 8, size=4, algorithm="ring")
    assert (chosen.algorithm, chosen.decider) == ("ring", "the argument")
    assert "decided by the argument" in str(chosen)
    assert repr(chosen).startswith("<Selection allreduce of 8 B on 4 ranks: ring, ")
    assert "x the time of" in chosen.reason
    chosen = select("allreduce", 8, size=4, policy="mpich")
    assert (chosen.algorithm, chosen.decider) == (
        "recursive_doubling",
        "the policy of mpich",
    )


def test_it_is_said_that_a_variable_or_a_file_has_decided(monkeypatch, tmp_path):
    monkeypatch.setenv("COLLALGO_ALLREDUCE", "bine")
    chosen = select("allreduce", 8, size=4)
    assert (chosen.algorithm, chosen.decider) == (
        "bine",
        "the environment (COLLALGO_ALLREDUCE)",
    )
    monkeypatch.delenv("COLLALGO_ALLREDUCE")
    path = tmp_path / "rules.yaml"
    path.write_text(MINE)
    monkeypatch.setenv("COLLALGO_RULES", str(path))
    chosen = select("allreduce", 8, size=5)
    assert (chosen.algorithm, chosen.decider) == (
        "ring(segments=2)",
        f"the file {path}",
    )
    assert select("allreduce", 8, size=6).decider == "price"


def test_calls_follow_the_environment(monkeypatch):
    monkeypatch.setenv("COLLALGO_ALLREDUCE", "swing")

    def who(comm):
        total = comm.allreduce(np.ones(3))
        return total[0], comm.select("allreduce", 24).algorithm

    assert threads(who, 3) == [(3.0, "swing")] * 3
    monkeypatch.setenv("COLLALGO_ALLREDUCE", "rign")
    with pytest.raises(AlgorithmNotApplicable, match="no algorithm 'rign'"):
        threads(who, 2)


def test_what_cannot_run_as_asked_is_refused():
    with pytest.raises(AlgorithmNotApplicable, match="even number of ranks"):
        select("allgather", 8, size=3, algorithm="neighbor_exchange")
    with pytest.raises(AlgorithmNotApplicable, match="does not combine in the order"):
        select("allreduce", 8, size=4, algorithm="ring", reproducible=True)
    with pytest.raises(ValueError, match="no policy 'mvapich'"):
        select("allreduce", 8, size=4, policy="mvapich")
    with pytest.raises(ValueError, match="NCCL needs a topology"):
        select("allreduce", 8, size=4, policy="nccl")


def test_the_policy_of_nccl_reads_the_topology():
    prospect = TopologyPricer(Topology.load("dgx1v", hosts=2, nics=2))
    assert prospect.world == World(16, 2, 25.0, 12, True, 70)
    chosen = select("allreduce", 1 << 30, topology=prospect, policy="nccl")
    assert chosen.decider == "the policy of NCCL (ring, Simple)"
    assert "ring" in chosen.algorithm
    small = select("allreduce", 64, topology=prospect, policy="nccl")
    assert small.algorithm.startswith(("double_tree", "ring"))


def invoke(*words):
    return CliRunner().invoke(main, ["select", *words])


def test_a_policy_is_read_again_when_its_file_has_changed(tmp_path):
    file = tmp_path / "mine.yaml"
    for when, name in enumerate(("pairwise", "bruck", "pairwise")):
        file.write_text(MINE.replace("0: bruck", f"0: {name}"))
        os.utime(file, (when, when))
        chosen = select("alltoall", 8, size=3, policy=str(file))
        assert chosen.algorithm == name


def test_an_algorithm_of_some_sizes_only_is_plotted(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text(MINE.replace("4096: ring", '4096: "two_shot(segments=2)"'))
    words = ("-n", "3", "--size", "1K,64M", "--policy", str(file), "--plot")
    result = invoke("allreduce", *words, str(tmp_path / "f.svg"))
    assert result.exit_code == 0, result.output


def test_the_command_prints_a_table_over_sizes(tmp_path):
    picture = tmp_path / "prices.svg"
    result = invoke(
        "allreduce", "--topology", "dgx1v", "--hosts", "2", "--nics", "2",
        "--size", "1K..1M", "--peers", "--plot", str(picture),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "16 ranks" in result.output
    for word in ("1 KiB", "1 MiB", "openmpi", "mpich", "nccl", "gloo", "x bound"):
        assert word in result.output
    assert "<svg" in picture.read_text()[:1000]


def test_the_command_prints_json():
    result = invoke("broadcast", "4K", "-n", "4", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert found["decider"] == "price"
    cheapest = min(c["seconds"] for c in found["candidates"] if "seconds" in c)
    assert found["seconds"] == pytest.approx(cheapest, rel=ALIKE)
    several = json.loads(
        invoke("broadcast", "-n", "2", "--size", "8..128", "--json").output
    )
    assert [one["nbytes"] for one in several] == [8, 32, 128]


def test_the_json_has_the_choices_of_peers():
    result = invoke("broadcast", "-n", "2", "--size", "8,128", "--json", "--peers")
    for one in json.loads(result.output):
        assert {"openmpi", "mpich", "gloo"} == set(one["peers"])
        assert one["peers"]["mpich"]["decider"] == "the policy of mpich"


def test_the_command_refuses_what_is_wrong():
    assert "give either -n" in invoke("broadcast", "8").output
    assert "no policy" in invoke("scan", "8", "-n", "2", "--policy", "x").output
    assert (
        "--all needs one size"
        in invoke("scan", "-n", "2", "--size", "8,9", "--all").output
    )
    assert "is not a size" in invoke("scan", "8q", "-n", "2").output
