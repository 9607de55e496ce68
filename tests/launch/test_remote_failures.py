"""What dies, stops or cannot be reached on several hosts is named."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.leisure import at_leisure
from tests.support.remote_jobs import SCRIPT, all_do, command, run


def left_over(marker):
    """The processes that have this in their command line."""
    listed = subprocess.run(
        ["pgrep", "-f", marker], capture_output=True, text=True, check=False
    )
    return [int(p) for p in listed.stdout.split() if int(p) != os.getpid()]


def below(process):
    """A process and all its descendants."""
    found, parents = {process}, [process]
    for parent in parents:  # which grows
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            children = list(map(int, task.read_text().split()))
            found |= set(children)
            parents += children
    return found


DYING = """
import os, signal, numpy as np, collalgo
from collalgo.errors import PeerFailed
signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of the launcher, which is in haste
comm = collalgo.init()
x = np.ones(1 << 20, np.float32)
comm.allreduce(x)
if comm.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    while True:
        comm.allreduce(x)
except PeerFailed as error:
    print("told", error.missing, flush=True)
"""


def check_quiet(tmp_path, program, hosts, told, ranks):
    """Check that these ranks tell this, and that UCX prints nothing."""
    script = tmp_path / "script.py"
    script.write_text(program)
    done = run(hosts, script)
    found = done.stdout + done.stderr
    assert done.stdout.count(told) == ranks, found
    assert "UCX" not in found


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_after_a_death_ucx_does_not_complain(tmp_path):
    """Of what was under way, and of what nobody will receive."""
    check_quiet(tmp_path, DYING, "a:2,b:1,c:1", "told (1,)", ranks=3)


DIFFERING = """
import numpy as np, collalgo
comm = collalgo.init()
comm.barrier()
try:
    comm.allreduce(np.ones(1_000_000 if comm.rank else 500_000))
except collalgo.MismatchError as error:
    print("told", flush=True)
"""


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_after_a_call_that_fails_ucx_does_not_complain(tmp_path):
    """Of the messages of the call, which nobody will receive."""
    check_quiet(tmp_path, DIFFERING, "a:1,b:1", "told", ranks=2)


@pytest.mark.usefixtures("rsh")
def test_a_host_that_cannot_be_reached_is_named_with_the_command():
    done = run("a:1,nowhere:1", SCRIPT, "groups", "1+1")
    assert done.returncode == 1
    assert "host nowhere cannot be used; this command failed: " in done.stderr
    assert "no route to nowhere" in done.stderr
    assert "-m collalgo.launch.agent" in done.stderr


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("code", [1, 76, 77, 255])
@pytest.mark.parametrize("elastic", [(), ("--min", "1", "--max-restarts", "0")])
def test_a_rank_that_ends_with_a_code_of_ours_or_of_ssh_has_lost_no_host(
    code, elastic, tmp_path
):
    script = tmp_path / "ends.py"
    script.write_text(f"import sys\nprint('begun')\nsys.exit({code})\n")
    done = run("a:1", *elastic, script)
    assert done.returncode == code
    assert f"rank 0 ended with exit code {code}" in done.stderr, done.stderr
    assert "lost" not in done.stderr
    assert done.stdout == "[0] begun\n"


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("duty", ["killed", "killed_joining"])
def test_a_rank_that_is_killed_is_named_by_all_others_within_a_second(duty):
    done = run("a:1,b:2", SCRIPT, duty, "1+2")
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "rank 2 was killed by SIGKILL" in done.stderr
    told = re.findall(r"told (\d): (.*?)\.\n", done.stdout)
    assert sorted(rank for rank, _ in told) == ["0", "1"], done.stdout + done.stderr
    assert all("rank 2 is gone" in message for _, message in told)
    # Only who is on its host knows that it is the process that has ended.
    calls = {message.partition(", or its host")[0] for _, message in told}
    assert len(calls) == 1 or duty == "killed_joining"


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_a_call_whose_communicator_is_closed_fails_on_all_hosts():
    told = re.findall(r"told (\d): ", all_do("closed", "1+2").stdout)
    assert sorted(told) == ["0", "1", "2"]


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_a_child_of_a_killed_rank_does_not_hide_its_death():
    done = run("a:1,b:2", SCRIPT, "forked", "1+2")
    told = re.findall(r"told (\d): (.*?)\.\n", done.stdout)
    assert sorted(rank for rank, _ in told) == ["0", "1"], done.stdout + done.stderr
    assert all("rank 2 is gone" in message for _, message in told)


def start(tmp_path):
    """A job whose ranks call for ever, once all of them do."""
    script = tmp_path / "for_ever.py"
    script.write_text(
        "import collalgo, numpy as np\ncomm = collalgo.init()\nx = np.ones(1000)\n"
        "comm.allreduce(x)\nprint('ready', flush=True)\n"
        "while True: comm.allreduce(x, 'max')\n"
    )
    job = subprocess.Popen(
        command("a:1,b:2", script),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(3):
        assert "ready" in job.stdout.readline()
    return job, str(script)


def nothing_is_left(marker, seconds):
    end = time.monotonic() + seconds
    while left_over(marker) and time.monotonic() < end:
        time.sleep(0.05)
    return not left_over(marker)


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    "number",
    at_leisure(
        [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], {signal.SIGKILL, signal.SIGINT}
    ),
)
def test_nothing_is_left_of_a_job_whose_launcher_is_stopped(tmp_path, number):
    job, marker = start(tmp_path)
    job.send_signal(number)
    code = job.wait(20)
    assert code == (-number if number == signal.SIGKILL else 128 + number)
    assert nothing_is_left(marker, 5)
    job.communicate()


@pytest.mark.deadline
@pytest.mark.usefixtures("rsh")
def test_a_host_whose_agent_is_killed_ends_the_job(tmp_path):
    job, marker = start(tmp_path)
    victim = max(below(job.pid) & set(left_over("collalgo.launch.agent")))
    os.kill(victim, signal.SIGKILL)
    assert job.wait(20) != 0
    _, said = job.communicate()
    assert nothing_is_left(marker, 5)
    assert "is gone" in said or "is lost" in said
