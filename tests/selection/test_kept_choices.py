"""Choices that are kept are those that were priced."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import collalgo
from collalgo import ALGORITHMS, Topology
from collalgo.algorithms import ring
from collalgo.base import code_identity, disk_cache
from collalgo.selection import kept_choices
from collalgo.selection.on_host import HostPricer
from collalgo.selection.on_topology import TopologyPricer
from collalgo.selection.prices import Choices
from tests.support.pricers import PROFILE, host, on_hosts


def same(some: Choices, others: Choices):
    """Whether choices are the same, with the same prices."""
    for one, other in zip(some.breaks, others.breaks, strict=True):
        (mine, price, order, _), theirs = one.candidate, other.candidate
        assert (one.nbytes, mine, order) == (other.nbytes, theirs.row, theirs.order)
        sizes = np.array([0.0, 8.0, 1e4, 1e7])
        assert (price.seconds(sizes) == theirs.price.seconds(sizes)).all()
        assert price.caveat == theirs.price.caveat
    return True


@pytest.mark.parametrize("reproducible", [False, True])
def test_kept_choices_are_those_that_were_priced(reproducible, kept, monkeypatch):
    def all_choices():
        kept()
        pricers = [host(3), host(5, cores=8), on_hosts("dgx1v", hosts=2)]
        return [
            pricer.choices(collective, reproducible)
            for pricer in pricers
            for collective in ("allreduce", "reduce")
        ]

    priced = all_choices()
    monkeypatch.setattr(kept_choices.disk_cache, "keep", None)
    assert all(map(same, all_choices(), priced))
    assert len(list((disk_cache.folder() / "choices").iterdir())) == len(priced)


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "3", "[[0.0]]", '[[0.0, "rign", ""]]', '[[5.0, "ring", ""]]',
        '[[0.0, "ring", ""], ["a", "bine", ""]]', '[[0.0, "neighbor_exchange", ""]]',
        '[[0.0, "ring", ""], [9.0, "bine", ""], [8.0, "ring", ""]]', "[" * 10000,
        '[[0.0, ["ring"], ""]]', '[[0.0, "ring", "upwards"]]', '[[NaN, "ring", ""]]',
    ],
)  # fmt: skip
def test_what_does_not_hold_choices_is_priced_anew(text, kept, monkeypatch):
    priced = host(3).choices("allgather")
    kept()
    monkeypatch.setattr(disk_cache, "recall", lambda *_: text)
    assert same(host(3).choices("allgather"), priced)


def test_each_figure_has_choices_of_its_own(kept, monkeypatch):
    asked = []
    monkeypatch.setattr(disk_cache, "recall", lambda _, key: asked.append(key))
    topology = Topology.load("dgx1v")
    gpus = [gpu.id for gpu in topology.devices("gpu")]
    link = topology.links[0]
    for change in ({}, {"copy": 1.1e-10}, {"cores": 3}, {"cache": 1 << 20}):
        HostPricer(2, PROFILE._replace(**change)).choices("scan")
    host(3).choices("scan")
    host(2).choices("exscan")
    host(2).choices("reduce", reproducible=True)
    TopologyPricer(topology).choices("scan")
    TopologyPricer(topology, devices=gpus[::-1]).choices("scan")
    topology.link(*link.ends, link.kind, 1.0)
    TopologyPricer(topology).choices("scan")
    monkeypatch.setattr(code_identity, "of_code", lambda: "other code")
    kept()
    host(2).choices("scan")
    assert asked[::2] == asked[1::2]  # before a turn, and in it
    assert len({*asked}) == len(asked) // 2 == 11


def test_choices_for_one_size_are_kept_apart_and_served_by_those_for_all(kept):
    def cheapest(*only):
        kept()
        return on_hosts("dgx1v", hosts=2).choices("broadcast", False, *only)

    def files(kind):
        return {*(disk_cache.folder() / kind).glob("*")}

    one = cheapest(1 << 20)
    (first,) = files(kept_choices.OF_ONE_SIZE)
    assert not files(kept_choices.KIND)
    assert same(cheapest(1 << 20), one)
    whole = cheapest()
    assert same(cheapest(8), whole)
    assert files(kept_choices.OF_ONE_SIZE) == {first}
    assert len(files(kept_choices.KIND)) == 1


def test_choices_among_rows_of_users_are_not_kept(kept):
    collalgo.algorithm("allreduce", "of_a_user")(ring.allreduce)
    try:
        host(2).choices("allreduce")
    finally:
        ALGORITHMS[:] = [row for row in ALGORITHMS if row.name != "of_a_user"]
    assert not disk_cache.folder().exists()
    host(2).choices("allreduce")
    assert disk_cache.folder().exists()


def test_all_code_that_makes_prices_is_part_of_the_key():
    """Whatever pricing loads, beside errors and what only moves bytes."""
    script = (
        "import sys, collalgo.selection.on_topology, collalgo.selection.on_host\n"
        "print(*sorted(m.__file__ for n, m in sys.modules.items() "
        "if n.startswith('collalgo') and getattr(m, '__file__', None)), sep='\\n')"
    )
    run = [sys.executable, "-c", script]
    loaded = subprocess.run(run, capture_output=True, text=True, check=True)
    package = Path(collalgo.__file__).parent
    folders = {str(Path(f).parent.relative_to(package)) for f in loaded.stdout.split()}
    moves_bytes = {f for f in folders if f.startswith(("_kernels/e", "engine/t"))}
    assert folders - moves_bytes - {".", "_kernels"} <= set(code_identity.CODE)


def test_a_link_to_nothing_among_the_code_is_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(code_identity, "PACKAGE", str(tmp_path.parent))
    monkeypatch.setattr(code_identity, "CODE", [tmp_path.name])
    monkeypatch.setattr(code_identity, "_agreed", [])
    (tmp_path / "module.py").touch()
    before = code_identity.dates_of_code.__wrapped__()
    (tmp_path / ".#module.py").symlink_to("user@host.123")  # the lock of an editor
    assert code_identity.dates_of_code.__wrapped__() == before
