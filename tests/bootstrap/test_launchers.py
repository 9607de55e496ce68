"""Who a process is, where several launchers have left their variables."""

import os
import re
import subprocess
import sys
from itertools import product

import pytest

from collalgo import BootstrapError
from collalgo.bootstrap.identity import identity
from tests.support.leisure import at_leisure
from tests.support.mpiexec import ENVIRONMENTS, mpiexec
from tests.support.paths import ROOT

WHO = """
import collalgo
comm = collalgo.init(join_timeout=30)
print(f"{comm.rank} of {comm.size}", flush=True)
"""

#: A rank that starts another process in one of the usual ways.
PARENT = """
import multiprocessing, os, subprocess, sys
import collalgo

def child():
    try:
        collalgo.init(join_timeout=30)
    except collalgo.BootstrapError as error:
        print(error, flush=True)

if __name__ == "__main__":
    comm = collalgo.init()
    way = sys.argv[1]
    if comm.rank == 1:
        if way == "program":
            subprocess.run([sys.executable, sys.argv[2]], check=False)
        else:
            one = multiprocessing.get_context(way).Process(target=child)
            one.start()
            one.join()
    comm.barrier()
"""

MPICH = {"PMI_RANK": "1", "PMI_SIZE": "3"}
OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "3"}
TORCH = {"RANK": "1", "WORLD_SIZE": "3"}
RUN = {"COLLALGO_JOB": "j", **TORCH, "LOCAL_WORLD_SIZE": "3"}
HOROVOD = {"HOROVOD_RANK": "1", "HOROVOD_SIZE": "3"}


@pytest.mark.parametrize(
    ("variables", "launcher"),
    [
        (TORCH | MPICH, "mpiexec of MPICH"),
        (TORCH | OPEN_MPI, "mpiexec of Open MPI"),
        (RUN | MPICH, "collalgo run"),
        (TORCH | HOROVOD, "horovodrun"),
        (TORCH | {"TORCHELASTIC_RUN_ID": "1"} | MPICH, "torchrun"),
    ],
)
def test_launchers_that_agree_leave_it_to_who_knows_most(variables, launcher):
    found = identity(variables)
    assert (found.rank, found.size, found.launcher) == (1, 3, launcher)


@pytest.mark.parametrize("other", [MPICH, OPEN_MPI, HOROVOD])
@pytest.mark.parametrize("change", [{"RANK": "0"}, {"WORLD_SIZE": "4"}])
def test_a_contradiction_names_both_sets_of_variables(other, change):
    variables = TORCH | change | other
    with pytest.raises(BootstrapError) as caught:
        identity(variables)
    for name in (*TORCH, *other):
        assert f"{name}={variables[name]}" in str(caught.value)


@pytest.fixture
def who(tmp_path):
    """A script whose process says who it is."""
    path = tmp_path / "who.py"
    path.write_text(WHO)
    return path


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("name", "size"),
    at_leisure(product(ENVIRONMENTS, "12"), {("mpich", "1"), ("openmpi", "2")}),
)
def test_variables_that_a_platform_left_do_not_count_under_mpiexec(who, name, size):
    done = mpiexec(name, 3, who, RANK="0", WORLD_SIZE=size)
    assert sorted(done.stdout.split("\n")) == ["", "0 of 3", "1 of 3", "2 of 3"]


@pytest.mark.parametrize("is_wanted", [False, True])
def test_a_rank_that_is_a_launcher_is_refused_unless_it_is_wanted(who, is_wanted):
    run = [sys.executable, "-m", "collalgo", "run", "-n"]
    unset = ["env", "-u", "COLLALGO_JOB"] if is_wanted else []
    done = subprocess.run(
        [*run, "2", *unset, *run, "3", who], cwd=ROOT,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if not is_wanted:
        assert done.returncode == 2
        assert re.search("within rank [01] of 2 of another collalgo run", done.stderr)
        assert not done.stdout
        return
    found = sorted(line.split("] ")[2] for line in done.stdout.splitlines())
    assert found == sorted(["0 of 3", "1 of 3", "2 of 3"] * 2), done.stderr


@pytest.mark.parametrize("way", ["program", "fork", "spawn"])
def test_a_child_of_a_rank_is_told_so_at_once(tmp_path, who, way):
    parent = tmp_path / "parent.py"
    parent.write_text(PARENT)
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "run", "-n", "2", parent, way, who],
        env={**os.environ, "COLLALGO_TOPOLOGY": str(parent)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    assert said.count("COLLALGO_TOPOLOGY has no effect on one host") == 1, said
    assert "was started by rank 1 of 2" in said
    assert done.returncode == 0, said


@pytest.mark.parametrize(
    ("variables", "missing"),
    [
        ({"RANK": "0"}, "WORLD_SIZE"),
        ({"WORLD_SIZE": "2"}, "RANK"),
        ({"RANK": "1", "WORLD_SIZE": " "}, "WORLD_SIZE"),
        ({"HOROVOD_SIZE": "2"}, "HOROVOD_RANK"),
        ({"OMPI_COMM_WORLD_RANK": "1"}, "OMPI_COMM_WORLD_SIZE"),
        ({"OMPI_COMM_WORLD_SIZE": "2"}, "OMPI_COMM_WORLD_RANK"),
        ({"PMI_RANK": "0"}, "PMI_SIZE"),
        ({"PMI_SIZE": "2"}, "PMI_RANK"),
        ({"MV2_COMM_WORLD_RANK": "0"}, "MV2_COMM_WORLD_SIZE"),
        ({"JSM_NAMESPACE_RANK": "0"}, "JSM_NAMESPACE_SIZE"),
        ({"PALS_RANKID": "0"}, "PALS_SIZE"),
    ],
)
def test_half_of_an_identity_is_no_world_of_one(variables, missing):
    (name, value), *_ = variables.items()
    with pytest.raises(BootstrapError, match=f"{name}={value} is set, but {missing} i"):
        identity(variables)
    assert identity(variables | MPICH | OPEN_MPI).size == 3
    assert identity({"WORLD_SIZE": "1"}).size == 1


def test_the_rank_of_pmix_alone_is_no_world_of_one():
    with pytest.raises(BootstrapError, match="PMIX_RANK=1 is set, but no variable of"):
        identity({"PMIX_RANK": "1"})
    assert identity({"PMIX_RANK": "1"} | OPEN_MPI).size == 3


def test_who_waits_in_vain_names_the_variables_and_the_time(who):
    script = WHO.replace("join_timeout=30", "timeout=0.5")
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **TORCH, "RANK": "0"},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "waited 0.5 s for ranks [1, 2] of 3" in done.stderr
    assert "rank and size are from RANK=0 and WORLD_SIZE=3" in done.stderr
