"""The commands of the bench measure, write, compare and refuse."""

from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner
from collalgo.bench import job_commands
from collalgo.bench.cli import main
from collalgo.bench.cluster.cli import main as cluster
from collalgo.bench.job_commands import on_ranks
from collalgo.bench.jobs import announcement
from collalgo.bench.options import split_names
from collalgo.bench.peers.environments import folder_of, peers
from collalgo.bench.records import as_json, of_json
from collalgo.bench.sweep import Sweep
from collalgo.bench.tune import tune

import collalgo
from collalgo import ALGORITHMS
from tests.support.bench_results import cell_of


def bench(*arguments):
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["groups", "--rounds", "0"], "0 is not in the range x>=1"),
        (["prices", "--pause", "nan"], "nan is not"),
        (["prices", "--pause", "inf"], "inf is not in the range"),
        (["compare", __file__, __file__, "--tolerance", "nan"], "nan is not a finite"),
    ],
)
def test_numbers_out_of_range_are_refused_before_the_measurement(words, message):
    done = bench(*words)
    assert done.exit_code == 2
    assert message in done.output


def options_in(command):
    """The options of a command and of its subcommands."""
    yield from command.params
    for one in getattr(command, "commands", {}).values():
        yield from options_in(one)


@pytest.mark.parametrize("command", [main, cluster, tune], ids=lambda one: one.name)
def test_each_option_that_is_a_number_has_a_range(command):
    for option in options_in(command):
        kind = type(option.type)
        assert kind not in {type(click.INT), type(click.FLOAT)}, option
        assert kind is not click.FloatRange, f"NaN passes {option}"


def test_the_command_measures_and_writes(tmp_path):
    files = [tmp_path / name for name in ("a.json", "a.csv", "a.svg")]
    wanted = zip(("--json", "--csv", "--plot"), files, strict=True)
    names = [str(part) for pair in wanted for part in pair]
    limits = ["-b", "8", "-e", "1K", "-f", "128", "--calls", "4", "-N", "2"]
    done = bench("allreduce", "scan", "--ranks", "2", *limits, *names)
    assert done.exit_code == 0
    assert "scan, 2 ranks" in done.output
    assert "wrong elements: 0 OK" in done.output
    assert [row.size for row in of_json(files[0])] == [8, 1024] * 2
    assert files[1].read_text().startswith("contestant,collective,ranks,size")
    assert "<svg" in files[2].read_text()


@pytest.fixture
def results(tmp_path):
    """Files of results: as they are, and of calls that take twice as long."""
    files = [str(tmp_path / name) for name in ("once.json", "twice.json")]
    for file, times in zip(files, (1, 2), strict=True):
        rows = [cell_of("a", [times * 1e-6] * 2, size=n, collective="scan")
                for n in (8, 1024)]  # fmt: skip
        Path(file).write_text(as_json(rows, {"cores": 2}))
    return files


def test_the_command_compares(results):
    once, twice = results
    same = bench("compare", once, once)
    assert same.exit_code == 0
    assert "same" in same.output
    assert bench("compare", once, twice).exit_code == 1
    assert bench("compare", twice, once).exit_code == 0


def test_the_command_draws_what_there_are_results_of(results, tmp_path):
    picture = tmp_path / "b.svg"
    assert bench("plot", results[0], str(picture), "scan").exit_code == 0
    assert "<svg" in picture.read_text()
    nothing = bench("plot", results[0], str(picture), "alltoall")
    assert "nothing to draw" in nothing.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["allreduce", "-b", "x"], "is not a size; write 8, 4K, 64MB or 1e6"),
        (["allreduse"], "'allreduse' is not one of"),
        (["-d", "float99"], "'float99': choose from"),
        (["-e", "8", "-a", "rings"], "there is no algorithm 'rings'"),
        (["compare", "/dev/null", "/dev/null"], "holds no results"),
        (["broadcast", "-e", "8", "-r", "x"], "'x' is not a rank"),
        (["broadcast", "-e", "8", "-r", "7"], "root 7 is out of range"),
        (["-e", "8", "--load", __file__, "-a", "mine"], "there is no algorithm 'mine'"),
        (["--against", "lam"], "unknown peer 'lam'; choose from openmpi"),
        (["--against", "mpi,mpich"], "mpi, the mpi4py of the job, is compared alone"),
        (["-e", "8", "-R", "2", "--against", "mpi"], "mpi4py has 1 of the 2 ranks"),
        (["-a", "ring,bine", "--against", "gloo"], "compared with one algorithm"),
        (["--calls", "5", "--against", "gloo"], "of equal time; leave out --calls"),
        (["--help"], "compare"),
    ],
)
def test_what_the_command_refuses_it_explains(arguments, message):
    assert message in bench(*arguments).output


def test_names_may_have_parameters_with_commas():
    assert split_names("ring,torus_2d(dims=(2, 3), lanes=2),bine") == (
        "ring",
        "torus_2d(dims=(2, 3), lanes=2)",
        "bine",
    )
    assert split_names(None) == ()


def test_a_sweep_says_who_wins():
    done = bench("sweep", "barrier", "--ranks", "2", "--calls", "3")
    names = {row.name for row in ALGORITHMS if row.collective == "barrier"}
    result = next(
        line.split() for line in done.output.splitlines() if line.startswith("barrier")
    )
    assert len(names.intersection(result)) >= 2  # the winner and the second
    assert "chosen / best" in done.output
    assert "of the best in" in done.output
    assert "predicted times differ" in done.output


@pytest.mark.parametrize("option", [("-b", "1M"), ("-e", "1M"), ("-f", "4")])
def test_a_list_of_sizes_beside_borders_is_refused(option):
    found = CliRunner().invoke(main, ["run", "-s", "64", *option])
    assert found.exit_code == 2
    assert f"-s names all sizes; leave out -s, or {option[0]}" in found.output


def test_what_a_race_installs_and_takes_is_said_before(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    todo = Sweep(sizes=(8, 64), cycles=3)
    text = announcement(peers("mpich,gloo"), 2, todo)
    assert f"installs mpich (mpi4py, mpich, numpy) from PyPI into {tmp_path}" in text
    assert "installs gloo (torch, numpy)" in text
    assert "measures 6 cells of collalgo and mpich, mpich-rg, gloo: " in text
    for peer in peers("mpich,gloo"):
        folder_of(peer).mkdir(parents=True, exist_ok=True)
        (folder_of(peer) / "installed").touch()
    assert "installs" not in announcement(peers("mpich,gloo"), 2, todo)


def size_and_rank(comm):
    return comm.size, comm.rank


def test_work_without_a_launcher_is_done_by_new_ranks():
    assert on_ranks(size_and_rank, 2) == ((2, 0), 2)


@pytest.mark.parametrize("rank", [0, 1])
def test_work_under_a_launcher_is_done_by_its_ranks(monkeypatch, rank):
    monkeypatch.setattr(job_commands, "identity", lambda: SimpleNamespace(launcher="x"))
    monkeypatch.setattr(
        collalgo, "init", lambda: SimpleNamespace(rank=rank, size=3), raising=False
    )
    expected = None if rank else ((3, 0), 3)
    assert on_ranks(size_and_rank, 8) == expected
