"""``--matrix`` of ``bound``, ``select`` and ``plan``: an alltoallv by its bytes."""

import json
import re

import numpy as np
import pytest
from click.testing import CliRunner

from collalgo import Topology, bound, select
from collalgo.base.units import human_time
from collalgo.cli.main import main
from collalgo.selection.overrides import PEERS
from tests.support.commands import run

#: The number of ranks.
SIZE = 4

#: A machine of as many.
MESH = ("mesh", "dims=2x2")


@pytest.fixture
def nbytes():
    table = np.random.default_rng(5).integers(0, 1 << 24, (SIZE, SIZE))
    np.fill_diagonal(table, 0)
    return table


@pytest.fixture(autouse=True)
def matrix(tmp_path, monkeypatch, nbytes):
    """The option, with a file of the bytes."""
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "bytes.csv"
    path.write_text("\n".join(",".join(map(str, row)) for row in nbytes.tolist()))
    return "--matrix", str(path)


@pytest.fixture
def topology():
    return Topology.load("mesh", dims=(2, 2))


def test_a_failure_that_removes_a_rank_leaves_the_plans_of_other_collectives(matrix):
    words = ("plan", *MESH, "-c", "allgather", "-c", "alltoallv", "--size", "1M")
    shown = run(*words, *matrix, "--each-failure", "--one-of-equals")
    allgather, alltoallv = re.findall(r"host host0 +4 +(.*)", shown)
    assert re.match(r"3 +[0-9.]+ us .*cannot run", allgather)
    assert alltoallv.startswith("alltoallv: the matrix is for 4 ranks but there are 3")
    assert len(re.findall(r"network host0-host1 +4 +4 +[0-9.]+ [um]s", shown)) == 2


def test_the_commands_tell_what_the_functions_do(matrix, nbytes, topology):
    shown = run("bound", "alltoallv", *MESH, *matrix)
    least = bound("alltoallv", topology, counts=nbytes).seconds(nbytes.sum())
    assert f"at least {human_time(least)}" in shown
    found = select("alltoallv", counts=nbytes, topology=topology)
    shown = run("select", "alltoallv", *MESH, *matrix, "--json")
    told = json.loads(shown)
    assert (told["algorithm"], told["nbytes"]) == (found.algorithm, nbytes.sum())
    assert told["seconds"] == found.seconds
    shown = " ".join(run("plan", *MESH, "-c", "alltoallv", *matrix).split())
    assert f"{human_time(found.seconds)} by {found.choice.words}" in shown


def test_peers_choose_for_a_matrix(matrix, nbytes, topology):
    shown = run("select", "alltoallv", *MESH, *matrix, "--peers", "--json")
    told = json.loads(shown)["peers"]
    assert told.keys() == {*PEERS}
    assert told["openmpi"]
    assert told["mpich"]
    for policy in PEERS:
        found = select("alltoallv", counts=nbytes, topology=topology, policy=policy)
        assert told[policy] is None or told[policy]["algorithm"] == found.algorithm
    assert run("select", "alltoallv", *MESH, *matrix, "--peers")


def test_a_fault_is_told_beside_the_whole_machine(matrix):
    words = ("alltoallv", *MESH, *matrix, "--without", "host0-host1")
    assert "with the faults that schedule would take" in run("select", *words)
    assert "the faults raise it by a factor of" in run("bound", *words)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("bound alltoallv {m} --matrix F --size 1G", "leave the size out"),
        ("select alltoallv 1G {m} --matrix F", "leave the size out"),
        ("select alltoallv {m} --matrix F --size 1G", "leave the size out"),
        ("plan {m} -c alltoallv --matrix F --size 1G", "leave the size out"),
        ("bound alltoallv {m}", "alltoallv needs --matrix FILE"),
        ("select alltoallv {m}", "alltoallv needs --matrix FILE"),
        ("plan {m} -c alltoallv", "alltoallv needs --matrix FILE"),
        ("bound alltoall {m} --matrix F", "not for alltoall; leave --matrix out"),
        ("select alltoall {m} --matrix F", "not for alltoall; leave --matrix out"),
        ("plan {m} --matrix F", "not for allreduce, allgather, reduce_scatter; leave"),
        ("select alltoallv -n 4 --matrix F", "--matrix needs --topology"),
        ("select alltoallv -n 4", "alltoallv needs --matrix FILE"),
        ("bound alltoallv dgx1v --matrix F", "for 4 ranks but there are 8"),
        ("select alltoallv dgx1v --matrix F", "for 4 ranks but there are 8"),
        ("plan dgx1v -c alltoallv --matrix F", "for 4 ranks but there are 8"),
        ("bound alltoallv {m} --matrix .", ".: it is a folder; name a file"),
    ],
)
def test_what_no_command_can_do_is_refused_in_words_of_options(words, reason, matrix):
    filled = words.format(m=" ".join(MESH)).split()
    given = [matrix[1] if word == "F" else word for word in filled]
    found = CliRunner().invoke(main, given)
    assert found.exit_code in (1, 2)
    said = " ".join(re.sub(r"[│╭╮╰╯─]", " ", found.output).split())
    assert reason in said
    assert "counts" not in said
