"""Programs of mpi4py on the engine of the library."""

import os
import re
import sys
from pathlib import Path

import pytest

from collalgo.integrations import as_mpi4py
from collalgo.integrations.as_mpi4py.process import Process
from tests.support.mpi4py_job import started
from tests.support.paths import ROOT

SCRIPT = ROOT / "tests" / "support" / "script_as_mpi4py.py"

#: The files of mpi4py's own tests, and the most tests of each that may fail. Their
#: folder is the value of a variable.
FOLDER = "MPI4PY_TESTS"
MOST_FAILURES = {
    "address": 0,
    "attributes": 0,
    "buffer": 0,
    "cco_buf": 0,
    "cco_buf_inter": 0,
    "cco_nb_buf": 0,
    "cco_nb_vec": 0,
    "cco_ngh_buf": 0,
    "cco_ngh_obj": 0,
    "cco_obj": 0,
    "cco_obj_inter": 0,
    "cco_pr_buf": 0,
    "cco_pr_ngh_buf": 0,
    "cco_pr_vec": 0,
    "cco_vec": 0,
    "cco_vec_inter": 0,
    "comm": 0,
    "comm_inter": 0,
    "comm_topo": 0,
    "datatype": 0,
    "environ": 0,
    "errhandler": 1,  # that expects an error at the 9th error handler
    "errorcode": 0,
    "exceptions": 0,
    "grequest": 0,
    "group": 0,
    "handle": 0,
    "info": 0,
    "mpimem": 0,
    "msgspec": 1,  # of windows
    "msgzero": 0,
    "objmodel": 4,  # of addresses and sizes in C
    "op": 1,  # that expects an error at the 33rd operation
    "p2p_buf": 0,
    "p2p_buf_matched": 0,
    "p2p_buf_part": 0,
    "p2p_obj": 0,
    "p2p_obj_matched": 0,
    "pack": 0,
    "pickle": 0,
    "request": 0,
    "status": 0,
    "subclass": 0,
    "threads": 0,
    "util_pkl5": 0,
}


#: A test that has failed on a rank.
FAILED = re.compile(r"^\[\d\] (?:FAIL|ERROR): (\w+ \([\w.]+\))", re.MULTILINE)


def test_a_program_of_mpi4py_runs_unchanged():
    job = started(3, str(SCRIPT))
    assert job.returncode == 0, job.stderr
    assert {f"right {rank} of 3;" for rank in range(3)} <= {
        line.partition("] ")[2] for line in job.stdout.splitlines()
    }


#: Rank 1 exits twice, the first time in vain, while rank 0 waits for it.
EXITS = """
import sys
from mpi4py import MPI
try:
    sys.exit(2)
except SystemExit:
    MPI.COMM_WORLD.barrier()
if MPI.COMM_WORLD.rank:
    {how}
MPI.COMM_WORLD.recv(source=1)
"""


@pytest.mark.parametrize(
    ("how", "words"), [("sys.exit(3)", []), ("raise SystemExit(3)", ["-m", "mpi4py"])]
)
def test_a_status_that_is_not_0_ends_the_job(how, words):
    job = started(2, sys.executable, *words, "-c", EXITS.format(how=how), seconds=20)
    assert job.returncode in (1, 3), job.stderr  # rank 0 may fail first


#: Rank 1 ends without a call that the others make.
LEAVES = """
import sys
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    sys.exit(0)
try:
    MPI.COMM_WORLD.Barrier()
except MPI.Exception as error:
    print(error.Get_error_class() == MPI.ERR_NOT_SAME, error, flush=True)
"""


def test_the_end_of_a_rank_is_not_a_barrier():
    job = started(2, sys.executable, "-c", LEAVES, seconds=30)
    assert "True" in job.stdout, job.stdout + job.stderr
    assert "rank 1 called MPI_Finalize" in job.stdout


#: Calls with wrong arguments, whose errors begin with the names of the calls.
WRONG = """
import numpy as np
from mpi4py import MPI
comm, x, y = MPI.COMM_WORLD, np.zeros(2), np.zeros(3, int)
def op(left, right, datatype):
    raise ValueError("of the program")
made = MPI.Op.Create(op)
calls = {
    "Allreduce": lambda: comm.Allreduce(x, y),
    "Iallreduce": lambda: comm.Iallreduce(x, y),
    "Allreduce_init": lambda: comm.Allreduce_init(x, y),
    "Bcast": lambda: comm.Bcast(x, root=3),
    "Alltoallv": lambda: comm.Alltoallv([x, 5], [y, 5]),
    "Ssend": lambda: comm.Ssend(x, 4),
    "Irecv": lambda: comm.Irecv(b"", 0),
    "Send_init": lambda: comm.Send_init([x, -1], 0),
    "Iprobe": lambda: comm.Iprobe(3),
    "Sendrecv_replace": lambda: comm.Sendrecv_replace([1, 2], 0),
    "bcast": lambda: comm.bcast(1, root=2),
    "scatter": lambda: comm.scatter([1, 2]),
    "isend": lambda: comm.isend(1, 0, tag=-3),
    "Neighbor_alltoall": lambda: comm.Create_cart([1]).Neighbor_alltoall(x, [1]),
}
for name, call in calls.items():
    try:
        call()
        print(name, "is right")
    except Exception as error:
        text = error.args[-1]
        assert text.startswith(name + ": "), (name, text)
        assert not text.startswith(f"{name}: {name}"), text
try:
    made.Reduce_local(x, x)
except ValueError as error:
    assert str(error) == "of the program"
print("all named")
"""


def test_the_errors_of_arguments_name_the_call():
    job = started(1, sys.executable, "-c", WRONG, seconds=30)
    assert "all named" in job.stdout, job.stdout + job.stderr
    assert "is right" not in job.stdout


#: What programs take of the package besides its communicators.
PACKAGE = """
import mpi4py.rc
mpi4py.rc.thread_level = "multiple"
assert type(mpi4py.rc)(threads=False).threads is False
from mpi4py import MPI
from mpi4py.typing import BufSpec  # of an mpi4py that is installed
assert type(MPI.BOTTOM) is MPI.BottomType and MPI.InPlaceType() is MPI.IN_PLACE
class Mine(MPI.Request):
    def test(self):
        return super().Test()
    def wait(self):
        return super().Wait()
comm = MPI.COMM_SELF
request = Mine(comm.Irecv(bytearray(1), 0))
assert not request.test()
comm.Send(b"a", 0)
assert request.wait()
assert comm.scatter(None) is None and comm.alltoall(None) == [None]
error = MPI.Exception(MPI.ERR_RANK)
assert str(error) == MPI.Get_error_string(MPI.ERR_RANK) == "MPI_ERR_RANK: invalid rank"
assert repr(error) == f"MPI.Exception({MPI.ERR_RANK})"
assert MPI.Exception(-5) == MPI.ERR_UNKNOWN
print("all there")
"""


def test_programs_find_the_parts_of_the_package():
    pytest.importorskip("mpi4py")
    job = started(1, sys.executable, "-c", PACKAGE, seconds=30)
    assert "all there" in job.stdout, job.stdout + job.stderr


#: The program joins in another thread, with long arguments, and ends by a code.
THREAD = """
import sys, threading
sys.stdout.close()
import mpi4py
mpi4py.rc.initialize = False
from mpi4py import MPI
def main():
    MPI.Init()
    assert MPI.Is_thread_main()
    assert len(MPI.INFO_ENV.Get("argv")) == MPI.MAX_INFO_VAL
    MPI.COMM_WORLD.Abort(256)
thread = threading.Thread(target=main)
thread.start()
thread.join()
"""


def test_abort_ends_with_a_status_that_is_not_0():
    job = started(1, sys.executable, "-c", THREAD, "x" * 2000, seconds=30)
    assert job.returncode == 1, job.stderr
    assert "Traceback" not in job.stderr


def test_the_package_comes_first_on_the_path():
    environment = {"PYTHONPATH": "/elsewhere"}
    as_mpi4py.put_in_front(environment)
    first, second = environment["PYTHONPATH"].split(os.pathsep)
    assert (Path(first) / "mpi4py" / "MPI.py").exists()
    assert second == "/elsewhere"


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.skipif(FOLDER not in os.environ, reason=f"{FOLDER} names no folder")
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", MOST_FAILURES)
def test_tests_of_mpi4py_pass(name, ranks):
    # A rank with failures must not end the tests of the others by its status.
    command = '"$0" main.py -q --no-builddir -i "$1"; true'
    job = started(
        ranks,
        *("sh", "-c", command, sys.executable, rf"^test_{name}\.py"),
        cwd=os.environ[FOLDER],
        seconds=1000,
    )
    ran = re.findall(r"Ran (\d+) tests", job.stderr)
    assert len(ran) == ranks, job.stderr
    failed = set(FAILED.findall(job.stderr))
    assert len(failed) <= MOST_FAILURES[name], failed


class Sent:
    """A send of a copy."""

    def __init__(self, over):
        self.over = over

    def is_over(self):
        return self.over


def test_copies_are_kept_until_they_are_sent():
    process, sends = Process(), [Sent(over) for over in (True, False, True)]
    for each in sends:
        process.keep(each)
    assert process.buffered == sends[1:]  # the latest is looked at by the next
