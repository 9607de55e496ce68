"""MPI programs in C whose collectives are taken by a preloaded library."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from collalgo._kernels.integrations.mpi_calls import TAKEN
from collalgo.cli.main import main
from collalgo.cli.run import _with_launcher
from collalgo.errors import BootstrapError
from collalgo.integrations import preload
from tests.support.leisure import at_leisure
from tests.support.mpiexec import python_of
from tests.support.paths import SCRIPTS

PRELOAD = (sys.executable, "-m", "collalgo", "run", "--preload")
SOURCE = SCRIPTS / "mpi_program.c"

#: The compilers of each MPI; the second of MPICH makes programs of the standard ABI.
COMPILERS = (("mpich", "mpicc"), ("openmpi", "mpicc"), ("mpich", "mpicc_abi"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """A function that compiles the program once with each compiler."""
    programs, folder = {}, tmp_path_factory.mktemp("mpi_program")

    def program_of(name, compiler):
        if (name, compiler) not in programs:
            path = folder / f"{name}_{compiler}"
            mpicc = python_of(name).with_name(compiler)
            words = [mpicc, "-std=gnu11", "-O1", "-Wall", "-Werror", "-o", path, SOURCE]
            subprocess.run(words, check=True, timeout=100)
            programs[name, compiler] = path
        return programs[name, compiler]

    return program_of


def run(name, size, *command, options=(), **environment):
    """Run a program by the mpiexec of an MPI: its output and its taken calls."""
    mpiexec = python_of(name).with_name("mpiexec")
    return launched(mpiexec, size, *command, options=options, **environment)


def launched(mpiexec, size, *command, options=(), **environment):
    """The same by any mpiexec."""
    done = subprocess.run(
        [*PRELOAD, mpiexec, *options, "-n", str(size), *command],
        env={
            **os.environ, "COLLALGO_PRELOAD_REPORT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", **environment,
        },
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    pattern = r"collalgo: rank (-?\d+): (\w+): (\d+) taken, (\d+) passed on"
    counts = re.findall(pattern, done.stderr)
    return done, {(int(rank), call): (int(n), int(m)) for rank, call, n, m in counts}


@pytest.mark.parametrize(
    ("name", "compiler", "size"),
    at_leisure(
        [(*each, size) for each in COMPILERS for size in (1, 2, 3, 4, 8)],
        {("mpich", "mpicc", 3), ("openmpi", "mpicc", 4), ("mpich", "mpicc_abi", 2)},
    ),
)
def test_results_are_right_and_most_calls_are_taken(compiled, name, compiler, size):
    done, counts = run(name, size, compiled(name, compiler), "check")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"right on {size} ranks\n"
    assert len(counts) == 6 * size, done.stderr
    for (rank, call), (taken, passed_on) in counts.items():
        if size == 1:
            assert taken == 0, call
        else:
            assert taken > 9, (rank, call)
        if call == "allreduce":
            assert passed_on > 30, rank  # of long double, pairs and an op of the user


def test_a_program_may_clear_its_environment(compiled):
    done, counts = run("mpich", 2, compiled("mpich", "mpicc"), "cleared")
    assert done.stdout == "right on 2 ranks\n", done.stderr
    assert len(counts) == 12, done.stderr
    assert all(taken > 9 for taken, _ in counts.values())


@pytest.mark.skipif(shutil.which("mpifort") is None, reason="there is no mpifort")
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_program_in_fortran_is_right(tmp_path, size):
    """Those of MPICH call its functions for C, which are taken; of Open MPI none."""
    mpifort, program = shutil.which("mpifort"), tmp_path / "program"
    source = SCRIPTS / "mpi_program.f90"
    words = [mpifort, "-w", "-fallow-argument-mismatch", "-o", program, source]
    subprocess.run(words, check=True, timeout=100)
    mpiexec = Path(mpifort).with_name("mpiexec")
    done, counts = launched(mpiexec, size, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"right on {size} ranks\n"
    assert {taken > 9 for taken, _ in counts.values()} <= {size > 1}


def test_the_user_names_the_collectives_that_are_taken(compiled):
    program = compiled("mpich", "mpicc")
    named = {"COLLALGO_PRELOAD": "barrier,broadcast"}
    done, counts = run("mpich", 2, program, "check", **named)
    assert done.returncode == 0, done.stderr
    taken = {call for (_, call), (number, _) in counts.items() if number}
    assert taken == {"barrier", "broadcast"}
    assert "among the first 3 calls of a communicator)\n" in done.stderr


def test_ranks_on_several_hosts_are_left_to_mpi(compiled):
    """Each rank calls its host by a name of its own."""
    program = compiled("mpich", "mpicc")
    words = ("sh", "-c", f"COLLALGO_HOST=h$PMI_RANK exec {program} check")
    done, counts = run("mpich", 2, *words)
    assert done.stdout == "right on 2 ranks\n", done.stderr
    assert counts
    assert not any(taken for taken, _ in counts.values())


def test_an_interpreter_that_does_not_start_on_one_rank_leaves_all_calls_to_mpi(
    compiled,
):
    program = compiled("mpich", "mpicc")
    broken = (
        f"[ $PMI_RANK = 1 ] && COLLALGO_PRELOAD_LIBRARY=/none; exec {program} check"
    )
    done, counts = run("mpich", 2, "sh", "-c", broken)
    assert done.stdout == "right on 2 ranks\n", done.stderr
    assert done.stderr.count("its interpreter cannot start") == 1
    assert not any(taken for taken, _ in counts.values())


def test_programs_without_mpi_and_python_programs_run_as_before():
    for command in (["echo", "x"], [sys.executable, "-c", "print('x')"]):
        done, counts = run("mpich", 2, *command)
        assert (done.returncode, done.stdout, counts) == (0, "x\nx\n", {}), done.stderr


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_a_program_of_mpi4py_keeps_its_mpi(name):
    code = (
        "from mpi4py import MPI; c = MPI.COMM_WORLD\n"
        "print(sum(c.allreduce(c.rank + 1) for _ in range(9)))\n"
        "for _ in range(9): c.Barrier()"
    )
    done, counts = run(name, 2, python_of(name), "-c", code)
    assert (done.returncode, done.stdout) == (0, "27\n27\n"), done.stderr
    assert counts[0, "barrier"] == counts[1, "barrier"] == (0, 9)
    assert not any(taken for taken, _ in counts.values())


@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_programs_in_c_and_in_python_share_a_job(compiled, name):
    """The rank in Python makes the calls of "count", whose results the others check."""
    code = (
        "import mpi4py; mpi4py.rc.thread_level = 'single'\n"  # or MPICH hangs itself
        "from mpi4py import MPI; import numpy as np; c = MPI.COMM_WORLD\n"
        "mine, total = np.full(500, c.rank), np.empty(500, int)\n"
        "for i in range(20): c.Allreduce(mine, total); assert total[7] == 3, total"
    )
    words = (
        python_of(name),
        "-c",
        code,
        ":",
        "-n",
        "2",
        compiled(name, "mpicc"),
        "count",
    )
    done, counts = run(name, 1, *words)
    assert done.returncode == 0, done.stderr
    assert counts == {(rank, "allreduce"): (0, 20) for rank in range(3)}, done.stderr


@pytest.mark.parametrize("setting", ["COLLALGO_ENGINE=mpi", "COLLALGO_TIMEOUT=x"])
def test_a_rank_that_cannot_connect_leaves_all_calls_to_mpi(compiled, setting):
    """It fails before the ranks exchange their hosts, or once they are connected."""
    program = compiled("mpich", "mpicc")
    line = f"[ $PMI_RANK = 1 ] && export {setting}; exec {program} check"
    done, counts = run("mpich", 3, "sh", "-c", line)
    assert done.stdout == "right on 3 ranks\n", done.stderr
    assert "rank 1 cannot connect" in done.stderr
    assert not any(taken for (rank, _), (taken, _) in counts.items() if rank == 1)
    assert counts[0, "barrier"][0]  # of the communicator of ranks 0 and 2


def test_a_call_fails_also_where_its_error_cannot_be_written(compiled):
    line = f"exec {compiled('mpich', 'mpicc')} returned 2>&-"
    done, _ = run("mpich", 3, "sh", "-c", line, options=["-disable-auto-cleanup"])
    assert done.stdout.count("an error") == 2, done.stderr  # MPICH mixes their lines


@pytest.mark.parametrize(("name", "compiler"), COMPILERS)
def test_the_code_of_an_error_has_its_sentence(compiled, name, compiler):
    done, _ = run(name, 2, compiled(name, compiler), "mismatch")
    assert done.stdout.startswith("allreduce #21: "), done.stderr  # after 20 barriers
    assert {"1000", "1001"} <= set(done.stdout.split()), done.stdout


def test_a_call_of_a_rank_that_ends_is_an_error_of_mpi(compiled):
    words = (compiled("mpich", "mpicc"), "leave")
    done, _ = run("mpich", 3, *words, options=["-disable-auto-cleanup"])
    assert done.returncode != 0
    assert re.search("Fatal error .*: barrier #.* is gone", done.stderr), done.stderr
    assert "PeerFailed" in done.stderr, done.stderr


def test_a_command_for_dumps_wakes_no_program(compiled):
    mpiexec = python_of("mpich").with_name("mpiexec")
    job = subprocess.Popen(
        [*PRELOAD, mpiexec, "-n", "2", compiled("mpich", "mpicc"), "asleep"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert job.stdout.readline() == "asleep\n"
        done = CliRunner().invoke(main, ["trace", "dump", str(job.pid)])
    finally:
        job.terminate()
        output, _ = job.communicate(timeout=30)
    assert "awake" not in output
    assert done.exit_code == 1, done.output
    assert done.output.count("is a program in C under --preload") == 2, done.output
    assert "next:" not in done.output


@pytest.mark.parametrize(
    ("words", "named", "code", "error"),
    [
        (["-n", "2", "true"], "", 2, "run --preload mpiexec -n 2 true"),
        (["true"], "allreduce,scan", 1, "COLLALGO_PRELOAD=allreduce,scan has scan"),
    ],
)
def test_what_has_no_effect_is_refused(words, named, code, error):
    assert_refused(words, code, error, COLLALGO_PRELOAD=named)


def test_a_program_of_mpi_without_a_launcher_is_warned_of(tmp_path):
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n# libmpi.so.12\necho ran\n")
    program.chmod(0o755)
    for known in (False, True):
        more = {"PMI_RANK": "0", "PMI_SIZE": "2"} if known else {}
        done = subprocess.run(
            [*PRELOAD, program], env={**os.environ, **more},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.stdout == "ran\n", done.stderr
        assert ("mpiexec -n 4" in done.stderr) is not known


def test_ranks_are_an_option_of_the_launcher_of_the_mpi():
    written = "collalgo run --preload /opt/mpirun -n 2 ./a.out"
    assert _with_launcher(["/opt/mpirun", "./a.out"], 2) == written


def test_a_file_that_cannot_run_is_refused(tmp_path):
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    empty.chmod(0o755)
    assert_refused([empty], 1, f"cannot run {empty}: Exec format error")


def assert_refused(words, code, error, **named):
    done = subprocess.run(
        [*PRELOAD, *words], env={**os.environ, **named},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert error in done.stderr


def test_a_library_that_is_not_compiled_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(preload, "PRELOADED", tmp_path / "mpi_preload")
    with pytest.raises(BootstrapError, match="which is not compiled"):
        preload.preload({})


def test_ranks_start_programs_with_the_libraries_of_the_user_only():
    environment = {"LD_PRELOAD": "/usr/lib/first.so:second.so"}
    preload.preload(environment)
    assert environment["LD_PRELOAD"].endswith(":/usr/lib/first.so:second.so")
    preload._forget_library(environment)
    assert environment["LD_PRELOAD"] == "/usr/lib/first.so:second.so"


def test_the_names_are_those_of_the_library():
    assert preload.TAKEN == TAKEN
