"""The backend of torch, in an environment that has torch, under two launchers."""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.leisure import at_leisure
from tests.support.mpiexec import mpiexec
from tests.support.paths import ROOT, SCRIPTS
from tests.support.torch_environment import BIN, NEEDS_TORCH

SCRIPT = SCRIPTS / "script_under_torch.py"
COLLECTIVES = (
    "every_collective", "swaps", "every_op", "objects_and_messages", "groups",
    "functional", "sparse_tensors", "lazy_views",
)  # fmt: skip
FRAMEWORK = (
    "data_parallel", "sparse_gradients", "zero_redundancy", "fully_sharded",
    "fully_sharded_flat", "compressed_gradients", "resized", "tensors_in_parts",
    "buckets_are_shared", "buckets_stay", "buckets_outlive_their_group",
    "compiled", "objects_at_a_root", "saved_in_the_background", "told_by_the_first",
    "tensor_parallel",
)  # fmt: skip
OF_OURS = (
    "style_of_horovod", "elastic_state", "elastic_sums", "usual_calls", "decoders",
    "futures_end_before_waits", "tensors_get_other_memory",
    "what_follows_fails", "profiles", "traces", "what_cannot_be",
    "results_are_in_place", "futures_are_of_all_calls", "failures_of_results",
    "timeouts_are_of_all_calls",
)  # fmt: skip

pytestmark = NEEDS_TORCH


OURS = (sys.executable, "-m", "collalgo", "run", "-n")
TORCHRUN = (
    BIN / "python", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"
)  # fmt: skip


def run(launcher, size, *duties, **environment):
    python = [] if launcher is TORCHRUN else [BIN / "python"]
    return subprocess.run(
        [*launcher, str(size), *python, SCRIPT, *duties],
        env={**os.environ, **environment},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def under_torch(*words, folder=None):
    """Run the Python that has torch; its folder comes before what is installed."""
    return subprocess.run(
        [BIN / "python", *words], cwd=folder,
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


def is_right(done, size, *duties):
    assert done.returncode == 0, done.stdout + done.stderr
    for duty in (*duties, "over"):
        assert len(re.findall(rf"{duty}: right \d+;", done.stdout)) == size, duty


@pytest.mark.parametrize(
    ("launcher", "size", "duties"),
    [
        (TORCHRUN, 2, ("ends_and_begins_again", *COLLECTIVES, *FRAMEWORK, *OF_OURS)),
        pytest.param(OURS, 2, (*COLLECTIVES, *OF_OURS), marks=pytest.mark.slow),
        pytest.param(TORCHRUN, 4, (*COLLECTIVES, *FRAMEWORK), marks=pytest.mark.slow),
    ],
    ids=["torchrun", "ours", "torchrun-4"],
)
def test_torch_works_on_it(launcher, size, duties):
    """Tests of failures and of several hosts use our launcher, too."""
    is_right(run(launcher, size, *duties), size, *duties)


@pytest.mark.parametrize(
    ("backend", "duties"),
    [
        (
            "cpu:collalgo,cuda:gloo",
            (
                "ours_on_the_host",
                "every_collective",
                "data_parallel",
                "the_others_end_after_an_error_of_ours",
            ),
        ),
        ("cpu:gloo,cuda:collalgo", ("gloo_on_the_host", "data_parallel")),
    ],
)
def test_each_device_has_its_backend(backend, duties):
    """Torch drops the other backends when it gets a group in Python."""
    is_right(run(OURS, 2, *duties, TORCH_BACKEND=backend), 2, *duties)


def test_gloo_and_mpi_race_beside_us_on_a_cluster(tmp_path):
    found = tmp_path / "race.json"
    what = ("-c", "broadcast", "-s", "64K", "--rounds", "1", "--most", "1")
    (packages,) = BIN.parent.glob("lib/python*/site-packages")
    done = mpiexec(
        "mpich", 2, "-m", "collalgo.bench.cluster.race", found, *what,
        "--gloo", tmp_path / "meet", PYTHONPATH=str(packages),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    ours, mpi, gloo = json.loads(found.read_text())["entries"]
    assert ours["chosen"]
    assert mpi["algorithm"].startswith("MPICH")
    assert gloo["algorithm"].startswith("gloo of torch")


@pytest.mark.slow
def test_the_command_replays_the_allreduces_of_a_decoder():
    sizes = ("--hidden", "16", "--layers", "1", "--tokens", "2")
    done = under_torch("-m", "collalgo", "bench", "inference", *sizes, folder=ROOT)
    assert done.returncode == 0, done.stderr
    title, _, *rows = done.stdout.splitlines()
    assert "2 ranks, 2 allreduces of 32 B in bfloat16 for each token" in title
    assert [row.split("  ")[0].strip() for row in rows] == [
        "no communication", "gloo", "collalgo", "collalgo.allreduce", "MPI", "vLLM"
    ]  # fmt: skip


#: What a single core does with calls of backward passes.
BACKWARD = ("data_parallel", "ends_of_backward_passes", "waits_in_backward_passes")


@contextmanager
def one_core():
    """Leave one core to the processes that are started."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def as_started_by(launcher, step):
    """Command lines and their environments, without the variables of torch."""
    variables = {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}
    env = {name: value for name, value in os.environ.items() if name not in variables}
    python = [BIN / "python", SCRIPT, "groups", *BACKWARD]
    if launcher == "mpiexec":
        return [[Path(sys.prefix) / "bin" / "mpiexec", "-n", "2", *python]], [env]
    step = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": step + str(os.getpid()),
            "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_NUM_NODES": "1"}  # fmt: skip
    ranks = [{**env, **step, "SLURM_PROCID": str(rank)} for rank in (0, 1)]
    return [python] * 2, ranks


@pytest.mark.parametrize("launcher", at_leisure(["mpiexec", "srun"], {"mpiexec"}))
def test_a_launcher_that_sets_no_variables_of_torch_is_enough(launcher, tmp_path):
    """Calls of a backward pass are put off where no core is spare."""
    commands, environments = as_started_by(launcher, tmp_path.name)
    with one_core():
        started = [
            subprocess.Popen(
                command, env=each, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )
            for command, each in zip(commands, environments, strict=True)
        ]  # fmt: skip
    out = "".join(each.communicate(timeout=120)[0] for each in started)
    assert [each.returncode for each in started] == [0] * len(started), out
    for duty in ("groups", *BACKWARD):
        assert len(re.findall(rf"{duty}: right \d+;", out)) == 2, out


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    ("hosts", "size", "duties"),
    at_leisure(
        [
            ("a:1,b:1", 2, "two_hosts groups"),
            ("a:1,b:2", 3, "two_hosts data_parallel"),
            ("a:1,b:2", 3, "every_collective buckets_are_shared"),
        ],
        {("a:1,b:1", 2, "two_hosts groups")},
    ),
)
def test_ranks_of_torch_meet_across_hosts_where_our_launcher_says(hosts, size, duties):
    duties = duties.split()
    done = run((*OURS[:-1], "-H", hosts, "-n"), size, *duties)
    is_right(done, size, *duties)


#: All that ``import torch`` imports of the package.
AT_IMPORT = {
    "collalgo", "collalgo._version", "collalgo.base", "collalgo.base.hooks",
    "collalgo.base.importing", "collalgo.integrations",
    "collalgo.integrations.torch_entry",
}  # fmt: skip

#: What needs no launcher; the last one puts a stand-in for a GPU in place of torch's.
ALONE = (
    "script_torch_arguments", "script_torch_overloads", "script_torchrun_handler",
    "script_torch_trees", "script_torch_on_devices",
)  # fmt: skip


def test_importing_torch_imports_only_the_entry_point_and_all_overloads_are_right():
    done = under_torch("-m", "tests.support.script_torch_alone", *ALONE, folder=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    imported, *said = done.stdout.splitlines()
    assert set(imported.split()) == AT_IMPORT
    assert [line for line in said if line.endswith(":")] == [f"{n}:" for n in ALONE]
    assert said.count("right") == len(ALONE), done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 3])
def test_calls_of_a_backward_pass_are_put_off_where_no_core_is_spare(size):
    with one_core():
        is_right(run(OURS, size, *BACKWARD), size, *BACKWARD)


@pytest.mark.deadline
def test_a_death_is_told_to_all_others():
    done = run(OURS, 3, "one_dies")
    assert done.returncode == 128 + 9
    assert len(re.findall(r"PeerFailed.*rank 1 is gone", done.stdout)) == 2


@pytest.mark.slow
@pytest.mark.deadline
def test_an_elastic_script_in_the_style_of_horovod_goes_on_without_a_killed_rank():
    script = SCRIPTS / "script_horovod_elastic.py"
    done = subprocess.run(
        [*OURS, "2", "--min", "1", BIN / "python", script],
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    sums = re.findall(r"^\[[01]\] sum (.*)$", done.stdout, re.MULTILINE)
    assert len(sums) == 2
    assert len(set(sums)) == 1
    on_first = re.findall(r"^\[0\] (\d members|reset)$", done.stdout, re.MULTILINE)
    assert on_first == ["2 members", "reset", "1 members", "reset", "2 members"]


TIMES_OUT = """
import os, signal, sys
from datetime import timedelta
import torch, torch.distributed as dist
given = {"timeout": timedelta(seconds=50)} if "given" in sys.argv else {}
dist.init_process_group("collalgo", **given)
print("group", dist.group.WORLD.comm.timeout, dist.new_group().comm.timeout)
signal.raise_signal(signal.SIGUSR1)
"""


@pytest.mark.parametrize(("words", "seconds"), [([], 40.0), (["given"], 50.0)])
def test_a_signal_dumps_calls_and_the_variable_is_the_default_timeout(
    words, seconds, tmp_path
):
    done = subprocess.run(
        [*OURS, "2", BIN / "python", "-c", TIMES_OUT, *words],
        env={**os.environ, "COLLALGO_DUMP": str(tmp_path), "COLLALGO_TIMEOUT": "40"},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(f"group {seconds} 40.0") == 2, done.stdout
    assert sorted(file.name[:6] for file in tmp_path.iterdir()) == ["rank0-", "rank1-"]


def test_a_broken_package_fails_where_the_backend_is_asked_for(tmp_path):
    shutil.copytree(ROOT / "collalgo", tmp_path / "collalgo")
    broken = tmp_path / "collalgo" / "comm" / "communicator.py"
    broken.write_text("raise RuntimeError('broken on purpose')\n")
    done = under_torch(
        "-c",
        "import torch.distributed as dist\n"
        "print('imported', flush=True)\n"
        "dist.init_process_group('collalgo', store=dist.HashStore(), rank=0, "
        "world_size=1)",
        folder=tmp_path,
    )
    assert done.stdout == "imported\n"
    assert done.returncode != 0
    assert "RuntimeError: broken on purpose" in done.stderr


def test_torch_s_own_tests_of_backends_pass_on_our_stores():
    source = os.environ.get("TORCH_SOURCE")
    if not source:
        pytest.skip("TORCH_SOURCE does not name a copy of torch's repository")
    script = "tests.support.script_tests_of_torch"
    done = under_torch("-m", script, source, folder=ROOT)
    assert done.returncode == 0, done.stderr
    passed = re.findall(r"^test_.*InServer.* ok$", done.stderr, re.MULTILINE)
    assert len(passed) > 8, done.stderr
