"""Races with other libraries: who runs, what is compared, and what goes wrong."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from collalgo.bench.cells import PLACES, REDUCING, Cell
from collalgo.bench.new_sizes import race_first_calls
from collalgo.bench.peers import contest
from collalgo.bench.peers.contest import ContestError, contestants, race_cell
from collalgo.bench.peers.environments import PEERS, Peer, install, peers
from collalgo.bench.peers.worker import arrays_for, mpi_call
from collalgo.bench.records import record
from collalgo.bench.report import cells, rivals, summary


@pytest.fixture
def here(monkeypatch):
    """Let every peer be found in the environment of the tests."""
    monkeypatch.setattr(contest, "install", lambda peer: Path(sys.prefix))
    monkeypatch.setattr(contest, "BURST", 0.002)


def open_descriptors():
    return len(os.listdir("/proc/self/fd"))


def test_names_stand_for_all_variants_of_a_library():
    assert {p.name for p in peers("openmpi")} > {"openmpi", "openmpi-sm"}
    assert [p.name for p in peers("mpich-rg")] == ["mpich-rg"]
    assert peers("all") == list(PEERS)
    with pytest.raises(ValueError, match="choose from openmpi, mpich"):
        peers("openmpi,lam")


def test_we_alone_are_a_contest(here):
    before = open_descriptors()
    with contestants([], 2) as field:
        assert [one.name for one in field] == ["collalgo"]
        cell = Cell("allreduce", 1000, op="max")
        times = race_cell(field, cell, "ring", rounds=2, in_a_row=3)
        cells = cell, Cell("barrier", 0)
        new_sizes = race_first_calls(field, cells, None, fresh=True)
    assert list(new_sizes) == [(cell, "collalgo")]  # a barrier has no sizes
    assert new_sizes[cell, "collalgo"] > 0
    assert len(times["collalgo"]) == 2
    assert all((seconds > 0).all() for seconds in times["collalgo"])
    assert open_descriptors() == before


def test_a_rank_that_ends_when_it_has_connected_is_named(tmp_path, monkeypatch):
    script = tmp_path / "ends.py"
    script.write_text(
        "import socket, sys\nsocket.socket(socket.AF_UNIX).connect(sys.argv[3])\n"
    )
    monkeypatch.setattr(contest.worker, "__file__", str(script))
    with (
        pytest.raises(ContestError, match=r"does not start \(a rank has ended"),
        contestants([], 1),
    ):
        pass


@pytest.mark.parametrize("collective", PLACES)
def test_a_peer_makes_the_same_call(here, collective):
    from mpi4py import MPI

    op = "sum" if collective in REDUCING else None
    cell = Cell(collective, 64, op=op, place=PLACES[collective][0])
    block, count = cell.counts(1)
    spec = {**cell._asdict(), "block": block, "count": count}
    call = mpi_call(MPI, MPI.COMM_SELF, spec, *arrays_for(spec))
    assert call is not None
    call()


def test_a_peer_runs_beside_us(here):
    mpich = next(peer for peer in PEERS if peer.name == "mpich")
    cells_ = [Cell("allreduce", 64, op="sum"), Cell("broadcast", 64, place="in")]
    cells_.append(Cell("allreduce", 64, dtype="bfloat16", op="sum"))
    with contestants([mpich], 2) as field:
        assert [one.name for one in field] == ["collalgo", "mpich"]
        assert "MPICH" in field[1].version
        for cell in cells_:
            times = race_cell(field, cell, rounds=2)
            assert ("mpich" in times) == (cell.dtype == "float32")


def test_a_peer_that_does_not_start_is_named_with_what_it_said(here):
    broken = Peer("broken", "broken", (), ("mpiexec", "--no-such-option"))
    with (
        pytest.raises(ContestError, match=r"broken ended with exit code"),
        contestants([broken], 2),
    ):
        pass


@pytest.mark.slow
def test_what_cannot_be_installed_says_why(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    nothing = Peer("nothing", "nothing", ("no-such-package-anywhere",))
    with pytest.raises(RuntimeError, match="cannot install nothing"):
        install(nothing)
    with pytest.raises(RuntimeError, match="cannot install nothing"):
        install(nothing)  # goes on where it was interrupted


def test_no_environment_is_made_in_a_folder_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "collalgo" / "peers" / "nothing"
    folder.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("mine")
    with pytest.raises(RuntimeError, match="collalgo bench has not made it; remove"):
        install(Peer("nothing", "nothing", ("numpy",)))
    assert [path.read_text() for path in folder.iterdir()] == ["mine"]


def test_ratios_are_to_our_row_of_the_same_cell():
    rows = []
    for nbytes, ours, theirs in ((8, 1e-6, 2e-6), (64, 1e-6, 5e-7)):
        cell = Cell("allreduce", nbytes, op="sum")
        for name, seconds in (("collalgo", ours), ("peer", theirs), ("worse", 1e-3)):
            times = [np.full(3, seconds), np.full(3, seconds), np.full(3, 1.0)]
            rows.append(record(cell, 2, times, contestant=name))
    assert [cell.peers["peer"] for cell in cells(rows)] == pytest.approx([2, 0.5])
    text = "\n".join(summary(rows))
    assert "over 2 cells, below 1 in 1; above 1 collalgo is faster" in text
    assert "the best peer of each cell" in text
    assert [column.header for column in rivals(rows).columns][-3:] == [
        "peer\nx", "worse\nx", "best\nx"
    ]  # fmt: skip
