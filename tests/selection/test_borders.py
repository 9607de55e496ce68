"""Decisions as borders: as if each size were decided for itself, in every run."""

import os
from bisect import bisect_right
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import yaml

import collalgo
from collalgo import ALGORITHMS, AlgorithmNotApplicable
from collalgo.algorithms import ring
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.decide import Question, decide, decisions
from collalgo.selection.on_host import ALIKE, HostPricer
from collalgo.selection.overrides import PEERS, rules_of
from collalgo.selection.policies import nccl
from collalgo.selection.prices import breaks
from collalgo.selection.rules import Rules
from tests.support.leisure import at_leisure
from tests.support.pricers import host, on_hosts

SIZES = (1, 2, 3, 5, 7, 8, 12, 16, 17, 33)


class Alone:
    """The algorithms of sizes that are decided each by itself, from all prices."""

    def __init__(self, pricer, collective, reproducible, rules):
        self.pricer, self.rules, self.collective = pricer, rules, collective
        self._able, _ = pricer.applicable(collective, reproducible)
        self._known = {}

    def name(self, nbytes):
        """The name of the algorithm, or the error that none can run as asked."""
        size = self.pricer.size
        named = self.rules and self.rules.choose(self.collective, size, nbytes)
        rows = [row for row in self._able if named in (None, row.name)]
        if not rows:
            return AlgorithmNotApplicable
        if named not in self._known:
            on_host = isinstance(self.pricer, HostPricer)
            similar = (ALIKE, self.pricer.similar) if on_host else ()
            self._known[named] = breaks(self.pricer.priced(rows), *similar)
        (*_, last) = [one for one in self._known[named] if one.nbytes <= nbytes]
        return self.pricer.runnable(last.candidate).name


def decided(question, pricer):
    try:
        return decide(question, pricer).name
    except AlgorithmNotApplicable as error:
        return type(error)


def random_rules(rng, collective, folder):
    """Rules for a collective by size, some of which cannot run."""
    names = [
        row.name
        for row in ALGORITHMS
        if row.collective == collective and not (row.hierarchical or row.by_name)
    ]
    sizes = {int(2 ** rng.uniform(0, 24)): str(rng.choice(names)) for _ in range(4)}
    document = {"collalgo": "rules/1", "blocks": [collective][: rng.integers(2)]}
    document["rules"] = {collective: [{"ranks": "1..", "sizes": sizes}]}
    path = folder / f"rules{rng.integers(1 << 30)}.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def around(rng, borders):
    """Random sizes, and those at every border and a byte on either side."""
    near = {int(at) + more for at in borders for more in (-1, 0, 1, 2)}
    far = 2 ** rng.uniform(0, 40, 12)
    return sorted({n for n in near if n >= 0} | {0} | set(map(int, far)))


def borders_of(pricer, collective, reproducible, rules):
    """All sizes at which a decision may change."""
    of_rules = rules.by_size(collective, pricer.size) if rules else ()
    priced = pricer.choices(collective, reproducible).borders
    return [*priced, *(least for least, _ in of_rules)]


def check(rng, pricer, collective, folder):
    """Compare decisions with those of single sizes, with and without rules."""
    path = random_rules(rng, collective, folder)
    reproducible = collective in ("allreduce", "reduce") and rng.random() < 0.3
    for variables in ({}, {"COLLALGO_RULES": str(path)}):
        rules = Rules.read(path) if variables else None
        with patch.dict(os.environ, variables):
            alone = Alone(pricer, collective, reproducible, rules)
            for nbytes in around(
                rng, borders_of(pricer, collective, reproducible, rules)
            ):
                asked = Question(collective, nbytes, reproducible=reproducible)
                assert decided(asked, pricer) == alone.name(nbytes), asked


@pytest.mark.parametrize("size", SIZES)
def test_a_size_is_decided_as_if_it_were_the_only_one(size, kept, tmp_path):
    """Priced in the first run, from disk in the second."""
    rng = np.random.default_rng(size)
    some = rng.choice(list(COLLECTIVES), 3, replace=False)
    for _ in range(2):
        kept()
        for collective in some:
            check(rng, host(size, cores=4), str(collective), tmp_path)


MACHINES = {
    "hosts": ("dgx1v", {"hosts": 2, "nics": 2}),
    "cores": ("cpu2s", {"hosts": 3, "ranks": "sockets"}),
    "torus": ("torus", {"dims": (3, 4)}),
}


@pytest.mark.parametrize("name", at_leisure(MACHINES, {"cores", "torus"}))
def test_on_hosts_a_size_is_decided_as_if_it_were_the_only_one(name, kept, tmp_path):
    rng = np.random.default_rng(len(name))
    some = rng.choice(list(COLLECTIVES), 3, replace=False)
    machine, parameters = MACHINES[name]
    for _ in range(2):
        pricer = on_hosts(machine, **parameters)
        for collective in some:
            check(rng, pricer, str(collective), tmp_path)


@pytest.mark.parametrize("size", [2, 8])
def test_between_two_borders_the_decision_is_one_object(size):
    rng = np.random.default_rng(size)
    for collective in COLLECTIVES:
        pricer = host(size)
        borders = [*pricer.choices(collective).borders, 2.0**42]
        for low, high in pairwise(borders):
            some = [int(low) + 1, *map(int, rng.uniform(low + 1, high - 1, 4))]
            found = {id(decide(Question(collective, n), pricer)) for n in some}
            other = decisions(Question(collective, 3), host(size)).at(some[0])
            assert found == {id(other)}


def test_blocks_change_the_schedule_only_where_it_depends_on_them():
    pricer = host(4)
    asked = Question("alltoall", 400, "pairwise", block_nbytes=(1, 10**7) * 8)
    plain = asked._replace(block_nbytes=None)
    assert decide(asked, pricer) is decide(plain, pricer)
    asked, plain = (one._replace(algorithm="hybrid") for one in (asked, plain))
    assert decide(asked, pricer).schedule.keywords["large"]
    assert decide(plain, pricer).schedule == decide(plain, host(4)).schedule


def test_the_environment_and_the_table_are_looked_at_again(monkeypatch):
    pricer, asked = host(4), Question("allreduce", 8)
    priced = decide(asked, pricer)
    monkeypatch.setenv("COLLALGO_ALLREDUCE", "bine")
    assert decide(asked, pricer).name == "bine"
    monkeypatch.delenv("COLLALGO_ALLREDUCE")
    assert decide(asked, pricer) is priced
    collalgo.algorithm("allreduce", "of_a_user")(ring.allreduce)
    named = decide(asked._replace(algorithm="of_a_user"), pricer)
    assert named.name == "of_a_user"
    assert decide(asked, pricer) is not priced


@pytest.mark.parametrize("seed", range(4))
def test_the_model_of_nccl_changes_where_its_borders_are(seed):
    rng = np.random.default_rng(seed)
    hosts = int(rng.choice([1, 2, 4, 33]))
    world = nccl.World(
        8 * hosts, hosts, float(rng.choice([12.0, 50.0, 120.0])), 12,
        bool(rng.integers(2)), int(rng.choice([70, 80, 90])),
    )  # fmt: skip
    for collective in nccl.COLLECTIVES:
        table = nccl.by_size(collective, world)
        borders = [least for least, _ in table]
        for nbytes in around(rng, borders):
            chosen = table[bisect_right(borders, nbytes) - 1][1]
            assert chosen == nccl.choose(collective, world, nbytes), nbytes


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer != "nccl"])
def test_the_policy_of_a_peer_changes_where_its_rules_say(peer):
    rng, pricer = np.random.default_rng(len(peer)), host(8)
    for collective in COLLECTIVES:
        borders = [least for least, _ in rules_of(peer).by_size(collective, 8)]
        for nbytes in around(rng, borders):
            named = rules_of(peer).choose(collective, 8, nbytes)
            found = decide(Question(collective, nbytes, policy=peer), pricer)
            assert (found.decider == "price") == (named is None)
            assert named is None or found.name == named
