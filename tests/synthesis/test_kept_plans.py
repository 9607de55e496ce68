"""Plans on disk: a later job makes none again, and never runs a damaged one."""

import zlib
from base64 import b64encode
from itertools import product

import numpy as np
import pytest

from collalgo import Topology, verify
from collalgo.base import code_identity, disk_cache
from collalgo.cost.placement import Placement
from collalgo.selection.on_topology import TopologyPricer
from collalgo.synthesis import kept_plans, kept_proofs, planner as planner_module
from collalgo.synthesis.planner import ONE, SEVERAL, Form, Planner
from collalgo.synthesis.synthesized import steps_of
from collalgo.synthesis.traffic import Traffic
from collalgo.synthesis.ways import PLANNED
from tests.support.host_networks import network

WAYS = [(name, way) for name, ways in PLANNED.items() for way in ways]


class Forgetful:
    """A cache that keeps nothing."""

    def get(self, _key, make):
        return make()


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "cache"))
    for name in ("MADE", "STEPS"):  # as in jobs of their own
        monkeypatch.setattr(planner_module, name, Forgetful())


def planner(size=5, seed=0):
    return Planner(Placement(network(size, seed=seed)))


def files():
    folder = disk_cache.folder() / kept_plans.KIND
    return sorted(folder.iterdir()) if folder.exists() else []


def same(one, other):
    columns = [
        [*plan.blocks, *plan.transfers, plan.step, plan.lane] for plan in (one, other)
    ]
    return one.size == other.size and all(map(np.array_equal, *columns))


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_a_later_job_makes_no_plan_again(size, monkeypatch):
    roots = {"broadcast": size - 1, "gather": 1, "reduce": size // 2}
    asked = [
        (name, Form(way, 4, pace, peers), roots.get(name, 0))
        for (name, way), pace, peers in product(WAYS, ["even", "half"], [ONE, SEVERAL])
    ]
    first = planner(size)
    made = [first.steps(*one).plan for one in asked]
    monkeypatch.setattr(Traffic, "represented", None)
    second = planner(size)
    for one, plan in zip(asked, made, strict=True):
        assert same(second.steps(*one).plan, plan)


def test_only_plans_that_run_are_kept():
    form = Form("trees", 4)
    one = planner()
    one.price("allgather", form)
    assert files() == []
    one.steps("allgather", form)
    assert len(files()) == 1


def test_each_plan_has_a_key_of_its_own(monkeypatch):
    topology = Topology.load("dgx1v")
    slow = topology.degraded("gpu0-gpu1", 0.5)
    forms = [Form("trees", 4), Form("trees", 5), Form("trees", 4, "half")]
    for machine, form, root in product((topology, slow), forms, (0, 1)):
        Planner(Placement(machine)).steps("broadcast", form, root)
    Planner(Placement(topology)).steps("reduce", forms[0])
    Planner(Placement(topology)).steps("reduce", forms[0]._replace(peers=SEVERAL))
    assert len(files()) == 14
    monkeypatch.setattr(code_identity, "of_code", lambda: "other code")
    Planner(Placement(topology)).steps("broadcast", forms[0])
    assert len(files()) == 15


#: Five blocks of four units each, of ranks that do not turn, and one block of five
#: units of ranks that do.
HEAD, TURNED = (5, 1, 4, 4, 4, 4, 4, 5, 0), (1, 1, 5, 5, 1)


def packed(*numbers):
    return b64encode(zlib.compress(np.array(numbers, "<i4").tobytes())).decode()


@pytest.mark.parametrize(
    "text",
    [
        "x", "????", b64encode(b"no numbers").decode(), packed(), packed(5),
        packed(-5), packed(6, 1, 4, *HEAD[2:]), packed(*HEAD, 1), packed(5, 1),
        packed(4, 1, 4, 4, 4, 4, 4, 0, 0, 1, 0, 0, 0, 0, 0),
        packed(5, 1, *[-4] * 5, 5, 0), packed(*HEAD[:7], 4, 0),
        packed(*HEAD[:8], 2), packed(*HEAD[:7]), packed(*HEAD[:8]),
        packed(5, 2, *HEAD[2:7], -1, -5, 0, 0), packed(5, 1 << 30, *HEAD[2:]),
        packed(*TURNED, 0, 1, 0, 1, 0, 0, 0),
        packed(*HEAD, 0, 5, 0, 0, 0, 0, 0), packed(*HEAD, -1, 1, 0, 0, 0, 0, 0),
        packed(*HEAD, 0, 1, 5, 0, 0, 0, 0), packed(*HEAD, 0, 1, 0, 4, 0, 0, 0),
        packed(5, 1, 8, 8, 8, 8, 4, 5, 0, 0, 1, 4, 4, 0, 0, 0),
        packed(*HEAD, 0, 1, 0, 0, 2, 0, 0), packed(*HEAD, 0, 1, 0, 0, 0, 1 << 30, 0),
        packed(*HEAD, 0, 1, 0, 0, 0, 0, 9), packed(*[0] * (1 << 22)),
    ],
)  # fmt: skip
def test_what_does_not_hold_a_plan_is_planned_anew(text, monkeypatch):
    form = Form("trees", 4)
    plan = planner().steps("allgather", form).plan
    monkeypatch.setattr(disk_cache, "recall", lambda *_: text)
    again = planner().steps("allgather", form)
    assert same(again.plan, plan)
    verify(again.of, size=5, collective="allgather")


@pytest.mark.parametrize("way", ["trees", "blocks"])
def test_a_turned_plan_of_a_later_job_is_the_one_that_has_been_proved(way, monkeypatch):
    proved, prove_plan = [], kept_proofs.prove_plan
    name = f"synthesized(way={way!r}, rounds=2)"
    monkeypatch.setattr(kept_proofs, "MOST_SYMBOLIC", 0)
    monkeypatch.setattr(
        kept_proofs, "prove_plan", lambda *given: proved.append(prove_plan(*given))
    )
    for _ in range(2):
        pricer = TopologyPricer(Topology.load("torus", dims=(3, 4)))
        row = pricer.find("allreduce", name)
        assert steps_of(row, 0).turning.count > 1
        pricer.prove(row, row.schedule, 0)
        monkeypatch.setattr(Traffic, "represented", None)
    assert len(proved) == 1


def test_a_damaged_file_is_planned_anew_and_replaced():
    form = Form("trees", 4)
    plan = planner().steps("allreduce", form).plan
    (path,) = files()
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    assert same(planner().steps("allreduce", form).plan, plan)
    assert path.read_bytes() == whole
