"""Peers take the algorithms of tuning files, and the files name the fastest."""

import json
from pathlib import Path
from shlex import quote

import numpy as np
import pytest
from click.testing import CliRunner
from collalgo.bench.cells import Cell
from collalgo.bench.exports import EXPORTS
from collalgo.bench.peers import algorithms
from collalgo.bench.peers.algorithms import measure_algorithms, table_of, variants
from collalgo.bench.peers.environments import TUNED, peers
from collalgo.bench.records import record
from collalgo.bench.report import gains
from collalgo.bench.sweep import Sweep
from collalgo.bench.tune import tune

from collalgo.selection.peer_rules import mpich
from collalgo.selection.peer_rules.algorithms import DEFAULT
from tests.support.mpiexec import mpiexec, python_of
from tests.support.paths import ROOT

#: From 1 KiB on, four ranks take the ring.
TABLE = {"allreduce": {4: {0: DEFAULT, 1024: "ring"}}}


@pytest.mark.mpi
@pytest.mark.parametrize("name", ["openmpi", "openmpi-json", "mpich"])
def test_a_peer_takes_the_algorithm_of_the_file(name, tmp_path):
    export, file = EXPORTS[name], tmp_path / "rules"
    library = python_of(export.peer).parents[1] / "lib"
    if name == "openmpi-json" and [*library.glob("**/openmpi-5.*.dist-info")]:
        pytest.skip("Open MPI 5 reads no JSON; 6 does")
    file.write_text(export.text_of(TABLE, export.kind.mark, None))
    Path(mpich.shared_file(str(file))).write_text(mpich.shared_text_of(TABLE, "a mark"))
    script = str(ROOT / "tests/support/script_sums.py")
    variables = export.environment(str(file), 1)
    done = mpiexec(export.peer, 4, script, "255", "256", "4096", **variables)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1, 3, 3]


class Field:
    """Contestants that take a time by the algorithm that they are forced to."""

    def __init__(self, peers):
        self.name, self.settings = peers.name, peers.settings


def seconds_of(one, cell):
    """A ring is fast for long allreduces, the default for short ones."""
    algorithm = one.settings.get("MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM", "")
    if cell.collective != "allreduce" or algorithm != "ring":
        return 1.0 if one.name == "mpich" else 1.5
    return 0.5 if cell.nbytes > 1000 else 2.0


@pytest.fixture
def imagined(monkeypatch):
    """Times by a rule instead of processes."""

    class Started:
        def __init__(self, peers, ranks, *, ours):
            assert not ours
            self.field = [Field(peer) for peer in peers]

        def __enter__(self):
            return self.field

        def __exit__(self, *_):
            pass

    def race(field, cell, rounds, **_):
        return {one.name: [np.full(3, seconds_of(one, cell))] * rounds for one in field}

    monkeypatch.setattr(algorithms, "contestants", Started)
    monkeypatch.setattr(algorithms, "race_cell", race)


def test_a_file_names_the_fastest_algorithm_of_each_size(imagined):
    sweep = Sweep(("allreduce", "broadcast", "gather"), (64, 4096), check=False)
    records = measure_algorithms("mpich", 4, sweep)
    assert {one.collective for one in records} == {"allreduce", "broadcast"}
    cells = [one for one in records if one[1:4] == ("allreduce", 4, 64)]
    # Of what takes 1.5 times as long as the fastest, more bursts were timed.
    assert [len(one.runs) for one in cells] == [10, 10, 10, 10, 2]
    assert [one.algorithm for one in cells] == [
        DEFAULT, "recursive_doubling", "recursive_multiplying(k=4)",
        "reduce_scatter_allgather", "ring",
    ]  # fmt: skip
    assert table_of("mpich", records) == {"allreduce": {4: {0: DEFAULT, 512: "ring"}}}


def test_one_variant_forces_an_algorithm_of_each_collective():
    first = variants("openmpi", 4)[1]
    assert first.names["allreduce"] == first.names["gather"] == "basic_linear"
    assert first.names["allgather"] == "linear"
    settings = first.peer.settings
    assert settings["OMPI_MCA_coll_tuned_gather_algorithm"] == "1"
    assert settings["OMPI_ALLOW_RUN_AS_ROOT"] == "1"
    assert "two_proc" not in {
        one.names.get("allgather") for one in variants("openmpi", 4)
    }
    assert "two_proc" in {one.names.get("allgather") for one in variants("openmpi", 2)}


def test_the_command_measures_and_says_how_to_use_the_file(
    imagined, tmp_path, monkeypatch
):
    file = tmp_path / "mpich.json"
    monkeypatch.chdir(tmp_path)  # the variables are for every folder
    words = [file.name, "--export", "mpich", "-R", "4", "-b", "64", "-e", "4096"]
    done = CliRunner().invoke(tune, words)
    assert done.exit_code == 0, done.output
    line = f"\nexport {mpich.FILE}={file} {mpich.SHARED_FILE}={file}.shared\n"
    assert line in done.output
    assert "2.00 times as fast" in done.output
    assert "MPIR_Allreduce_intra_ring" in file.read_text()
    again = CliRunner().invoke(tune, words)  # over its own files
    assert again.exit_code == 0, again.output
    mpich_only = Path(f"{file}.shared")
    mpich_only.write_text("mine")
    done = CliRunner().invoke(tune, words)
    assert done.exit_code == 1
    assert f"{mpich_only.name} exists" in done.output


@pytest.mark.parametrize("name", EXPORTS)
def test_the_command_prices_on_a_topology(name, tmp_path):
    file = tmp_path / "rules"
    words = [str(file), "--export", name, "--topology", "dgx1v", "hosts=2"]
    for _ in range(2):
        done = CliRunner().invoke(tune, words)
        assert done.exit_code == 0, done.output
        for variable, value in EXPORTS[name].environment(str(file), 2).items():
            assert f"{variable}={quote(value)}" in done.output
    assert EXPORTS[name].kind.name in file.read_text()


def test_the_command_says_what_it_needs(tmp_path):
    for words, expected in (
        (["--export", "nccl"], "name a topology to price them on"),
        (["--topology", "dgx1v"], "--topology dgx1v needs --export"),
        (["hosts=2"], "parameters need --topology"),
    ):
        done = CliRunner().invoke(tune, [str(tmp_path / "x"), *words])
        assert done.exit_code == 2
        assert expected in " ".join(done.output.split())


def test_a_peer_races_itself_with_a_file(tmp_path):
    file = tmp_path / "rules"
    file.touch()
    default, tuned = peers(f"mpich:{file}")
    assert (default.name, tuned.name) == ("mpich", f"mpich{TUNED}")
    assert tuned.settings[mpich.FILE] == str(file)
    for name, expected in (
        (f"gloo:{file}", "only openmpi and mpich read tuning files"),
        ("mpich:nowhere", "there is no such file"),
    ):
        with pytest.raises(ValueError, match=expected):
            peers(name)
    rows = [
        record(Cell("barrier", 0), 2, [np.full(3, seconds)], contestant=name)
        for name, seconds in (("mpich", 3.0), ("mpich-tuned", 2.0))
    ]
    assert gains(rows) == [
        f"mpich with its tuning file, {part}: 1.50 times as fast in the geometric mean "
        "of 1 cells, 1.50 to 1.50, by the best bursts"
        for part in ("barrier", "all")
    ]
