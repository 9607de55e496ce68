"""collalgo run --min: ranks die and come back, and the others go on."""

import re
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from collalgo.bootstrap.store import job_end
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.user_secret import user_secret
from collalgo.cli.main import main
from collalgo.launch.back_off import back_off
from tests.support.paths import SCRIPTS
from tests.support.processes import ended

SCRIPT = SCRIPTS / "script_elastic.py"


def run(options, *words, script=SCRIPT, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "collalgo", "run", *options.split(), script, *words],
        capture_output=True, text=True, timeout=100, check=False, cwd=cwd,
    )  # fmt: skip


def left_over(marker):
    """The processes that have this in their command line."""
    listed = subprocess.run(
        ["pgrep", "-f", marker], capture_output=True, text=True, check=False
    )
    return listed.stdout.split()


def weights(steps):
    """What any number of members trains."""
    found = np.full(9, 0.1)
    for step in range(steps):
        parts = [np.sin(found * (k + step)) for k in range(8)]
        while len(parts) > 1:
            parts = [a + b for a, b in zip(parts[::2], parts[1::2], strict=True)]
        found += parts[0]
    return found.tobytes().hex()


@pytest.mark.deadline
def test_ranks_die_and_come_back_and_the_weights_are_the_same():
    done = run("-n 3 --min 1", "30", "1:0:7,2:0:12,1:1:28", "wait")
    assert done.returncode == 0, done.stdout + done.stderr
    ends = re.findall(r"\[(\d)\] (\d) members, process \d+: (\w+)", done.stdout)
    assert sorted(rank for rank, *_ in ends) == ["0", "1", "2"], done.stdout
    assert {found for *_, found in ends} == {weights(30)}
    assert {"with 2\n", "with 3\n"} <= set(re.findall(r"with \d\n", done.stdout))
    told = re.findall(r"rank (\d) was killed by SIGKILL; restart (\d) of", done.stderr)
    assert sorted(told) == [("1", "1"), ("1", "2"), ("2", "1")], done.stderr


def test_a_rank_that_fails_after_the_others_have_finished_fails_the_job(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os, time\n"
        "if os.environ['RANK'] == '1':\n"
        "    time.sleep(1)\n"
        "    raise OSError('the disk is full')\n"
    )
    done = run("-n 2 --min 1", script=script)
    assert done.returncode == 1, done.stderr
    assert "OSError: the disk is full" in done.stderr.splitlines()[-1], done.stderr


@pytest.mark.deadline
@pytest.mark.slow
def test_a_rank_that_dies_again_and_again_is_given_up():
    done = run("-n 2 --min 1 --max-restarts 1", "400", "1:0:3,1:1:399", "wait")
    assert done.returncode == 0, done.stdout + done.stderr
    assert weights(400) in done.stdout


def test_the_pause_before_a_restart_doubles_up_to_a_minute():
    assert [back_off(number) for number in (1, 2, 3)] == [0.1, 0.2, 0.4]
    assert back_off(10) < back_off(11) == back_off(5000) == 60


def test_a_job_with_too_few_ranks_ends_with_the_error_of_the_last(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os\n1 / (2 - 2 * int(os.environ['RANK'] < '5'))\n")
    done = run("-n 2 --min 2 --max-restarts 1", script=script)
    assert done.returncode == 1
    assert "exit code 1; restart 1 of 1" in done.stderr
    assert "after 1 restarts; it is not restarted" in done.stderr
    assert "(fewer than 2 ranks left)" in done.stderr
    assert done.stderr.rstrip().endswith("ZeroDivisionError: division by zero")


def test_a_rank_whose_job_is_lost_does_not_begin_the_work_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import os\nfrom collalgo.errors import EpochLost\n"
        "open('started.' + os.environ['RANK'], 'a').write('x')\n"
        "raise EpochLost('the store was restarted')\n"
    )
    done = run("-n 2 --min 1 --max-restarts 3", script=script, cwd=tmp_path)
    assert done.returncode == 1
    assert "not restarted, as it would begin the work again" in done.stderr
    assert [(tmp_path / f"started.{rank}").read_text() for rank in "01"] == ["x", "x"]


SHRINKING = """
import atexit, os, sys, time
import numpy as np
import collalgo
from pathlib import Path

restarts, refused = int(sys.argv[1]), Path(__file__).with_name("refused")
again = os.environ["TORCHELASTIC_RESTART_COUNT"] != "0"
if again:
    atexit.register(refused.touch)  # after the error is told
comm = collalgo.init(join_timeout=1 if again else 60)
if comm.rank == 1:
    os.kill(os.getpid(), 9)
try:
    comm.allreduce(np.ones(1))
except collalgo.PeerFailed:
    comm = comm.shrink()
print("sum", comm.allreduce(np.ones(1))[0], flush=True)
while restarts and not refused.exists():  # a job that ends stops all of its ranks
    time.sleep(0.01)
"""


@pytest.mark.parametrize("restarts", [0, 1])
def test_survivors_that_shrink_end_the_job_in_order(tmp_path, restarts):
    """A rank that is started again finds no world to join, and is told why."""
    script = tmp_path / "script.py"
    script.write_text(SHRINKING)
    words = f"-n 3 --min 2 --max-restarts {restarts}"
    done = run(words, str(restarts), script=script)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("sum 2.0") == 2, done.stdout
    told = "a running world admits no ranks; make the program elastic"
    assert (told in done.stderr) == (restarts == 1), done.stderr


ENDING = """
import os
from collalgo import elastic

@elastic.run
def train(comm, state):
    comm.barrier()
    if comm.rank:
        os._exit(0)
    comm.barrier()

train(elastic.State())
"""


def test_a_member_does_not_wait_for_ranks_that_have_ended(tmp_path):
    """None of them is restarted after the end of one with exit code 0."""
    script = tmp_path / "script.py"
    script.write_text(ENDING)
    done = run("-n 3 --min 2", script=script)
    assert done.returncode == 1, done.stderr
    assert "which is closed (others ended, 1 of 2 ranks remain)" in done.stderr


def test_a_node_notes_that_a_rank_has_ended_with_exit_code_0(tmp_path):
    """The members of other nodes that are too few then end soon, too."""
    script = tmp_path / "script.py"
    script.write_text("")
    with closing(FileStore(tmp_path / "job")) as store:
        where = f"--elastic --nodes 2 --rendezvous file://{tmp_path} --id job"
        assert run(where, script=script).returncode == 0
        assert b"a rank has ended" in store.read(job_end.ENDING).value


EXCLUDED = """
import os, sys, time
from pathlib import Path
from collalgo.elastic import backends, exclusion
from collalgo.elastic.status import status

back = Path(sys.argv[1])
store = backends.store_at(os.environ["COLLALGO_RENDEZVOUS"], "job")
if os.environ["RANK"] == "1" and not back.exists():
    back.touch()
    exclusion.exclude(store, "rank 1", "it is slow")
    sys.exit(3)
elif os.environ["RANK"] == "0":
    while not status(store).excluded:
        time.sleep(0.01)
    time.sleep(1)  # rank 1 has ended
    exclusion.readmit(store, "rank 1")
    while back.stat().st_size == 0:
        time.sleep(0.01)
else:
    back.write_text("again")
"""


@pytest.mark.deadline
def test_an_excluded_rank_is_restarted_only_when_it_is_readmitted(tmp_path):
    """That uses up no restart."""
    script = tmp_path / "script.py"
    script.write_text(EXCLUDED)
    back = tmp_path / "back"
    done = run("-n 2 --min 1 --max-restarts 0", back, script=script)
    assert done.returncode == 0, done.stderr
    assert "exit code 3; it is excluded, and restarted once" in done.stderr
    assert back.read_text() == "again"


NODE = """
from collalgo import elastic

state = elastic.State(step=0)

@elastic.run
def train(comm, state):
    print("members", comm.size, flush=True)
    while state.step < 3 or comm.size > 1:
        comm.barrier()
        state.step += 1
        state.commit()

train(state)
"""


@pytest.mark.deadline
def test_a_node_goes_on_when_another_is_lost(tmp_path):
    (tmp_path / "train.py").write_text(NODE)
    with closing(Server(user_secret(), "127.0.0.1")) as server:
        where = f"127.0.0.1:{server.port}"
        line = f"--elastic --nodes 1:2 --rendezvous {where} {tmp_path / 'train.py'}"
        nodes = [
            subprocess.Popen(
                [sys.executable, "-m", "collalgo", "run", *line.split()],
                stdout=subprocess.PIPE, text=True,
            )
            for _ in range(2)
        ]  # fmt: skip
        with ended(nodes):
            for node in nodes:
                assert node.stdout.readline() == "[0] members 2\n"
            nodes[0].kill()
            assert nodes[1].stdout.readline() == "[0] members 1\n"
            assert nodes[1].wait(60) == 0


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("--elastic --nodes 1:2", "--elastic needs --nodes, as 1:4, and --rendezvous"),
        ("--elastic --nodes 2:1", "need 1 <= MIN <= MAX"),
        (
            "--elastic --nodes 2 --rendezvous a:b",
            "not of the form collalgo://HOST:PORT",
        ),
        ("--elastic --nodes 2 --rendezvous [::1", "is not a URL"),
        (
            "--elastic --nodes 2 --rendezvous replicated://a:1,b:1",
            "names 2 members; pass at least 3",
        ),
        ("--elastic --nodes 2 --rendezvous etcd://a,,b", "etcd://HOST:PORT,HOST:PORT"),
        ("--elastic --nodes 2 --rendezvous file:///%00", "of the form file:///FOLDER"),
        ("--elastic --nodes 2 --rendezvous a:1 --id a/b", "'a/b' is not a job id"),
        ("--elastic --nodes some", "'some' is not a range; write 4 or 1:4"),
        ("--elastic --nodes 2 --rendezvous a:1 -n 2", "pass --per-node and --nodes"),
        ("--per-node 2 -n 2", "need --elastic"),
        ("--elastic --nodes 2 --rendezvous a:1 -H a:2", "start it on each host"),
        ("--elastic --discover setup.py --rendezvous a:1", "pass no --rendezvous"),
        ("--discover setup.py -n 2", "need --elastic"),
        ("-n 2 --min 3", "--min 3 is more than the 2 ranks"),
        ("-n 2 --min 0", "0 is not in the range"),
        ("-n 2 --mpi --min 1", "are for ranks that collalgo starts itself"),
    ],
)
def test_limits_that_mean_nothing_are_refused(words, error, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["run", *words.split(), sys.executable])
    assert caught.value.code == 2
    assert error in capsys.readouterr().err.replace("\n", " ")
