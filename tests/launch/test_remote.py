"""collalgo run on several hosts, which here are names of one machine, and UCX between.

Deadlines bound how long a failure may take to be noticed; they do not measure speed.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import collalgo
from collalgo.bootstrap.connect import store_address
from collalgo.bootstrap.identity import Route, identity
from collalgo.engine.transport.waiting import cores
from collalgo.errors import BootstrapError
from tests.conftest import at_leisure
from tests.support.paths import SCRIPTS

SCRIPT = SCRIPTS / "script_across_hosts.py"


@pytest.mark.parallel
def test_a_rank_is_told_of_the_store():
    env = {"COLLALGO_STORE": "10.0.0.1,fe80::1:77", "COLLALGO_SECRET": "00ff"}
    assert store_address(env) == (["10.0.0.1", "fe80::1"], 77, b"\0\xff")
    env |= {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2"}
    assert identity(env).route is Route.STORE
    for name, wrong, reason in (
        ("COLLALGO_SECRET", "xyz", "must be hexadecimal digits"),
        ("COLLALGO_STORE", "nowhere", "must be HOST:PORT"),
    ):
        with pytest.raises(BootstrapError, match=rf"{name}=.*{reason}"):
            store_address(env | {name: wrong})


# ---- jobs


def command(hosts, *words):
    return [sys.executable, "-m", "collalgo", "run", "-H", hosts, *map(str, words)]


def run(hosts, *words, timeout=120):
    return subprocess.run(
        command(hosts, *words),
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


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


def all_do(duty, layout):
    parts = layout.split("+")
    hosts = ",".join(f"{name}:{n}" for name, n in zip("abcd", parts, strict=False))
    done = run(hosts, SCRIPT, duty, layout)
    assert done.returncode == 0, done.stdout + done.stderr
    size = sum(map(int, parts))
    assert all(f"right {rank};" in done.stdout for rank in range(size)), done.stdout
    return done


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    "layout", at_leisure(["2+2", "3+3", "4+4", "3+2+1"], {"3+2+1"})
)
def test_every_algorithm_is_right_by_ucx(layout):
    all_do("everything", layout)


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_groups_and_messages_are_as_by_mpi():
    assert (
        "told"
        not in all_do(
            "groups,messages,negotiated,swarm,early,long_blocks", "2+1"
        ).stdout
    )


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("duty", ["mismatch", "late", "leaver"])
def test_failures_are_as_by_mpi(duty):
    output = all_do(duty, "2+1").stdout
    assert len(set(re.findall(r"told \d+: (.*?)\.\n", output))) == 1


@pytest.mark.usefixtures("rsh")
def test_who_stays_can_make_groups_without_who_has_ended():
    all_do("shrinking", "3+1")


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


@pytest.mark.usefixtures("rsh")
def test_after_a_death_ucx_does_not_complain(tmp_path):
    """Of what was under way, and of what nobody will receive."""
    script = tmp_path / "dying.py"
    script.write_text(DYING)
    done = run("a:2,b:1,c:1", script)
    assert done.stdout.count("told (1,)") == 3, done.stdout + done.stderr
    assert "UCX" not in done.stdout + done.stderr


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_one_host_needs_no_engine(tmp_path):
    script = tmp_path / "one.py"
    script.write_text(
        "import collalgo, os\ncomm = collalgo.init()\nassert set(comm.hosts) == {0}\n"
        "comm.barrier()\nprint('local', os.environ['CROSS_SIZE'])\n"
    )
    done = run("a:3", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}] local 1" for r in range(3)]


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_the_ranks_of_a_host_and_of_one_local_rank_are_as_the_launcher_counts(tmp_path):
    script = tmp_path / "parts.py"
    script.write_text(
        "import collalgo, os, numpy as np\ncomm = collalgo.init()\nenv = os.environ\n"
        "for name, part in (('LOCAL', comm.local), ('CROSS', comm.cross)):\n"
        "    assert str(part.rank) == env[name + '_RANK']\n"
        "    assert str(part.size) == env[name + '_SIZE']\n"
        "    assert part.allreduce(np.ones(1))[0] == part.size\n"
        "print('right')\n"
    )
    done = run("a:2,b:1", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"[{r}] right" for r in range(3)]


@pytest.mark.usefixtures("rsh")
def test_other_libraries_are_told_where_rank_0_is_and_of_few_threads(tmp_path):
    script = tmp_path / "master.py"
    script.write_text(
        "import collalgo, os, socket\ncomm = collalgo.init()\nenv = os.environ\n"
        "where = env['MASTER_ADDR'], int(env['MASTER_PORT'])\n"
        "if comm.rank == 0:\n    server = socket.create_server(where)\n"
        "comm.barrier()\nsocket.create_connection(where).close()\n"
        "print(env['OMP_NUM_THREADS'])\n"
    )
    done = run("a:2,b:1", script)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [
        f"[{rank}] {max(1, cores() // local)}" for rank, local in enumerate([2, 2, 1])
    ]


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_a_host_that_cannot_be_reached_is_named_with_the_command():
    done = run("a:1,nowhere:1", SCRIPT, "groups", "1+1")
    assert done.returncode == 1
    assert "host nowhere cannot be used; this has failed: " in done.stderr
    assert "no route to nowhere" in done.stderr
    assert "-m collalgo.launch.agent" in done.stderr


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_no_message_is_kept_back_by_a_rank_that_waits_inside_its_host(monkeypatch):
    monkeypatch.setenv("UCX_TCP_SNDBUF", "4k")
    all_do("holding_back", "2+1")


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_a_forked_child_takes_no_message_of_its_parent():
    all_do("forking", "1+1")


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("duty", ["killed", "killed_joining"])
def test_a_rank_that_is_killed_is_named_by_all_others_within_a_second(duty):
    done = run("a:2,b:2", SCRIPT, duty, "2+2")
    assert done.returncode == 128 + signal.SIGKILL, done.stderr
    assert "rank 3 was killed by SIGKILL" in done.stderr
    told = re.findall(r"told (\d): (.*?)\.\n", done.stdout)
    assert sorted(rank for rank, _ in told) == ["0", "1", "2"], (
        done.stdout + done.stderr
    )
    assert all("rank 3 is gone" in message for _, message in told)
    # Only who is on its host knows that it is the process that has ended.
    calls = {message.partition(", or its host")[0] for _, message in told}
    assert len(calls) == 1 or duty == "killed_joining"


@pytest.mark.usefixtures("rsh")
def test_a_call_whose_communicator_is_closed_fails_on_all_hosts():
    told = re.findall(r"told (\d): ", all_do("closed", "1+2").stdout)
    assert sorted(told) == ["0", "1", "2"]


@pytest.mark.usefixtures("rsh")
def test_a_child_of_a_killed_rank_does_not_hide_its_death():
    done = run("a:1,b:2", SCRIPT, "forked", "1+2")
    told = re.findall(r"told (\d): (.*?)\.\n", done.stdout)
    assert sorted(rank for rank, _ in told) == ["0", "1"], done.stdout + done.stderr
    assert all("rank 2 is gone" in message for _, message in told)


def start(tmp_path, hosts="a:2,b:2"):
    """A job whose ranks call for ever, once all of them do."""
    script = tmp_path / "for_ever.py"
    script.write_text(
        "import collalgo, numpy as np\ncomm = collalgo.init()\nx = np.ones(1000)\n"
        "comm.allreduce(x)\nprint('ready', flush=True)\n"
        "while True: comm.allreduce(x, 'max')\n"
    )
    job = subprocess.Popen(
        command(hosts, script),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(4):
        assert "ready" in job.stdout.readline()
    return job, str(script)


def nothing_is_left(marker, seconds):
    end = time.monotonic() + seconds
    while left_over(marker) and time.monotonic() < end:
        time.sleep(0.05)
    return not left_over(marker)


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


@pytest.mark.usefixtures("rsh")
def test_a_host_whose_agent_is_killed_ends_the_job(tmp_path):
    job, marker = start(tmp_path)
    victim = max(below(job.pid) & set(left_over("collalgo.launch.agent")))
    os.kill(victim, signal.SIGKILL)
    assert job.wait(20) != 0
    _, said = job.communicate()
    assert nothing_is_left(marker, 5)
    assert "is gone" in said or "is lost" in said


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
def test_the_doctor_says_what_there_is_and_which_host_cannot_be_used():
    command = [sys.executable, "-m", "collalgo", "doctor", "-n", "999"]
    done = subprocess.run(
        [*command, "-H", "localhost:2,nowhere:1"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    text = re.sub(r"\s+", " ", done.stdout)
    for line in (
        "launcher none",
        "999 ranks share",
        "route to localhost from 127.0.0.1",
        "MPI mpi4py",
        "host localhost can be used",
        "host nowhere host nowhere cannot be used",
    ):
        assert line in text, text
    done = subprocess.run(command[:4], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parallel
@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize("options", [("-n", "3"), ("-H", "a:2,b:1")])
def test_the_output_of_each_rank_is_kept_where_it_is_wanted(options, tmp_path):
    code = (
        "import os, sys; print('out', os.environ['RANK']); sys.stderr.write('err\\n')"
    )
    command = [sys.executable, "-m", "collalgo", "run", *options, "--log-dir"]
    done = subprocess.run(
        [*command, str(tmp_path / "logs"), sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        assert f"[{rank}] out {rank}\n" in done.stdout
        kept = tmp_path / "logs" / f"rank.{rank}"
        assert (kept / "stdout").read_text() == f"out {rank}\n"
        assert (kept / "stderr").read_text() == "err\n"


@pytest.mark.parallel
@pytest.mark.mpi
def test_mpiexec_can_start_the_ranks_and_the_line_is_shown():
    script = (
        "import collalgo; c = collalgo.init(); "
        "print(f'rank {c.rank} {c.size}\\n', end='')"
    )
    command = [sys.executable, "-m", "collalgo", "run", "--mpi", "-n", "2"]
    done = subprocess.run(
        [*command, sys.executable, "-c", script],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"collalgo run: \S+/mpiexec -n 2 ", done.stderr)
    assert {"rank 0 2", "rank 1 2"} <= set(done.stdout.splitlines())


EXPLICIT = """
import os, sys
import numpy as np, collalgo
rank = int(sys.argv[1])
os.environ["COLLALGO_HOST"] = str(rank // 2)
comm = collalgo.init(rank=rank, size=3, store="127.0.0.1:" + sys.argv[2], secret="s")
assert collalgo.init() is comm
assert comm.hosts == (0, 0, 1)
assert comm.allreduce(np.array([rank]))[0] == 3
print("right")
"""


@pytest.mark.parallel
def test_ranks_may_be_told_everything_by_init(tmp_path, monkeypatch):
    monkeypatch.setenv("UCX_TLS", "tcp,self")
    script = tmp_path / "explicit.py"
    script.write_text(EXPLICIT)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(port)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in (2, 1, 0)
    ]  # fmt: skip
    for rank in ranks:
        said, _ = rank.communicate(timeout=60)
        assert (rank.returncode, said) == (0, "right\n")


@pytest.mark.parallel
def test_init_needs_all_of_rank_size_and_secret(monkeypatch):
    collalgo.init().close()  # or it would be given again
    with pytest.raises(ValueError, match="needs rank and size too"):
        collalgo.init(store="127.0.0.1:1", rank=1)
    monkeypatch.delenv("COLLALGO_SECRET", raising=False)
    with pytest.raises(BootstrapError, match="no secret of the job; pass secret="):
        collalgo.init(store="127.0.0.1:1", rank=0, size=2)
