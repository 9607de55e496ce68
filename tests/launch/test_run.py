"""``collalgo run`` as a user types it: output, failures, signals, nothing left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from collalgo.engine.transport.waiting import cores

COLLALGO = [sys.executable, "-c", "from collalgo.cli.main import main; main()"]


@pytest.fixture
def script(tmp_path):
    """Write a script and give its path."""

    def write(text):
        path = tmp_path / "script.py"
        path.write_text(
            "import os, sys, time\nimport numpy as np\nimport collalgo\n" + text
        )
        return str(path)

    return write


def run(*arguments, **options):
    return subprocess.run(
        [*COLLALGO, "run", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **options,
    )


def alive(process):
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def gone(processes, within):
    """Whether all processes end in time."""
    end = time.monotonic() + within
    while any(map(alive, processes)) and time.monotonic() < end:
        time.sleep(0.02)
    return not any(map(alive, processes))


def test_every_rank_runs_and_its_lines_carry_its_number(script):
    done = run(
        "-n", "3", script("x = collalgo.allreduce(np.ones(2))\nprint(x, 'a\\nb')")
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(
        f"[{rank}] {line}" for rank in range(3) for line in ("[3. 3.] a", "b")
    )


def test_ranks_find_themselves_in_the_variables_of_torchrun(script):
    names = ["RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR"]
    done = run("-n", "2", script(f"print(*(os.environ[n] for n in {names}))"))
    assert sorted(done.stdout.splitlines()) == [
        "[0] 0 0 2 2 127.0.0.1",
        "[1] 1 1 2 2 127.0.0.1",
    ]


def test_ranks_share_the_cores_unless_the_user_says_otherwise(script, monkeypatch):
    ask = script("print(os.environ['OMP_NUM_THREADS'])")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for ranks in (1, 2, 3):
        shown = set(run("-n", str(ranks), ask).stdout.splitlines())
        assert shown == {f"[{r}] {max(1, cores() // ranks)}" for r in range(ranks)}
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert run("-n", "1", ask).stdout == "[0] 7\n"


def test_a_module_and_any_program_can_be_run(tmp_path):
    assert run("-n", "1", "-m", "this").stdout.startswith("[0] The Zen of Python")
    assert run("-n", "1", "echo", "-n", "--x").stdout == "[0] --x\n"
    dashed = tmp_path / "-name.py"
    dashed.write_text("print('dashed')")
    assert run("-n", "1", "--", "-name.py", cwd=tmp_path).stdout == "[0] dashed\n"
    missing = run("-n", "1", "no-such-program")
    assert missing.returncode == 2
    assert "there is no program 'no-such-program'" in missing.stderr


@pytest.mark.deadline
def test_the_first_failure_ends_the_job_and_its_error_is_shown_last(script):
    started = time.monotonic()
    done = run(
        "-n",
        "3",
        script(
            "comm = collalgo.init()\n"
            "if comm.rank == 1:\n    raise LookupError('planted')\n"
            "time.sleep(comm.rank * 15)\n"
            "comm.barrier()\n"
        ),
    )
    assert done.returncode == 1
    assert time.monotonic() - started < 12
    report = done.stderr.split("collalgo run: ")[1]
    assert report == (
        "rank 1 ended with exit code 1 (the others were stopped); its traceback is "
        "above\n  LookupError: planted\n"
    )
    assert done.stderr.count("raise LookupError") == 1
    assert "PeerFailed: barrier #1: rank 1 is gone: LookupError: planted" in done.stderr


def test_an_error_of_a_call_in_the_background_is_shown_once(script):
    call = "comm.allreduce_async(np.ones(3 + comm.rank)).wait()\n"
    done = run("-n", "2", script(f"comm = collalgo.init()\n{call}"))
    head, error, note = done.stderr.split("collalgo run: ")[1].splitlines()
    assert head.endswith("its traceback is above")
    assert "MismatchError: allreduce #1" in error
    assert note.startswith("  called in the background at ")


def test_a_rank_that_is_killed_is_named(script):
    done = run(
        "-n",
        "2",
        script(
            "comm = collalgo.init()\n"
            "if comm.rank == 1:\n    os.kill(os.getpid(), 9)\n"
            "comm.barrier()\n"
        ),
    )
    assert done.returncode == 128 + 9
    assert "rank 1 was killed by SIGKILL" in done.stderr


WITH_CHILDREN = """
import subprocess
comm = collalgo.init()
child = subprocess.Popen(['sleep', '100'])
print(os.getpid(), child.pid, flush=True)
collalgo.barrier()
if comm.rank:
    comm.barrier()
time.sleep(100)
"""


@pytest.mark.deadline
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
)
def test_no_rank_survives_the_launcher(script, number, code):
    """Ctrl-C, a polite and a rude kill: ranks and their children end with it."""
    launcher = subprocess.Popen(
        [*COLLALGO, "run", "-n", "3", script(WITH_CHILDREN)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    lines = [launcher.stdout.readline().split() for _ in range(3)]
    ranks = [int(line[1]) for line in lines]
    children = [int(line[2]) for line in lines]
    time.sleep(0.3)
    launcher.send_signal(number)
    try:
        assert launcher.wait(timeout=20) == code
        assert gone(ranks, within=5)
        if number != signal.SIGKILL:  # then only the kernel is left to clean up
            assert gone(children, within=5)
    finally:
        launcher.stdout.close()
        for process in (*ranks, *children):
            if alive(process):
                os.kill(process, signal.SIGKILL)


#: A launcher that is slow to send signals, as it may be where others want its core.
SLOW_LAUNCHER = """
import os, time
from collalgo.cli.main import main
send = os.killpg
os.killpg = lambda group, number: (send(group, number), time.sleep(0.2))
main()
"""


UNTIL_INTERRUPTED = """
comm = collalgo.init()
print('ready', flush=True)
try:
    while True:
        if comm.rank: comm.barrier()
        else: time.sleep(0.01)
except KeyboardInterrupt:
    print('interrupted', comm.closed or comm.rank == 0, flush=True)
"""


@pytest.mark.deadline
def test_ctrl_c_is_a_keyboard_interrupt_in_the_middle_of_a_collective(script):
    path = script(UNTIL_INTERRUPTED)
    launcher = subprocess.Popen(
        [sys.executable, "-c", SLOW_LAUNCHER, "run", "-n", "2", path],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert {launcher.stdout.readline() for _ in range(2)} == {
        "[0] ready\n",
        "[1] ready\n",
    }
    time.sleep(0.3)
    launcher.send_signal(signal.SIGINT)
    rest = launcher.stdout.read()
    launcher.stdout.close()
    assert launcher.wait(timeout=20) == 130
    assert sorted(rest.splitlines()) == ["[0] interrupted True", "[1] interrupted True"]


@pytest.mark.deadline
def test_output_that_nobody_reads_ends_the_job(script):
    path = script("while True:\n    print('x' * 100)\n")
    reader = subprocess.run(
        f"{sys.executable} -m collalgo run -n 2 {path} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert reader.stdout.startswith("[")
    assert "Traceback" not in reader.stderr


@pytest.mark.deadline
def test_two_jobs_at_once_do_not_meet(script):
    path = script(
        "x = collalgo.allreduce(np.array([int(os.environ['VALUE'])]))\nprint(x[0])"
    )
    jobs = [
        subprocess.Popen(
            [*COLLALGO, "run", "-n", "2", path],
            env={**os.environ, "VALUE": str(value)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for value in (1, 10)
    ]
    outputs = [sorted(job.communicate(timeout=60)[0].splitlines()) for job in jobs]
    assert outputs == [["[0] 2", "[1] 2"], ["[0] 20", "[1] 20"]]


@pytest.mark.deadline
def test_without_a_launcher_a_process_is_a_world_of_one(script):
    done = subprocess.run(
        [
            sys.executable,
            script("print(collalgo.init(), collalgo.allreduce(np.ones(1)))"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "<Communicator rank 0 of 1> [1.]\n"


@pytest.mark.deadline
def test_all_ranks_know_that_they_may_not_read_each_others_memory(script):
    path = script(
        "from collalgo.bootstrap import host_root\n"
        "from collalgo.comm.current import runner_of\n"
        "host_root.can_read_memory_of = lambda processes: False\n"
        "comm = collalgo.init()\n"
        "machine = runner_of(comm).programs.host_profile\n"
        "assert machine.fetch == machine.exchange > 0\n"
        "x = np.full((comm.size, 1 << 15), comm.rank)\n"
        "assert (comm.alltoall(x) == np.arange(comm.size)[:, None]).all()\n"
    )
    done = command("run", "-n", "2", path)
    assert done.returncode == 0, done.stderr


def command(*arguments):
    return subprocess.run(
        [*COLLALGO, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
