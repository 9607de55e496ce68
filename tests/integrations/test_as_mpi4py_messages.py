"""Messages of programs of mpi4py."""

import sys
import threading

import numpy as np
import pytest

from collalgo import threads
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.errors import MpiException
from collalgo.integrations.as_mpi4py.generalized import Grequest
from collalgo.integrations.as_mpi4py.matching import Matching
from collalgo.integrations.as_mpi4py.message_operations import Receive, wait_for_any
from collalgo.integrations.as_mpi4py.serving import Serving
from collalgo.integrations.as_mpi4py.specs import simple
from tests.support.mpi4py_job import started

#: Rank 1 ends normally while rank 0 waits for it, in each way.
DEATHS = """
import os, sys
import numpy as np
from mpi4py import MPI
comm, room = MPI.COMM_WORLD, np.zeros(1)
comm.Barrier()
if comm.rank:
    os._exit(0)
requests = [comm.Irecv(room, 1, tag) for tag in range(3)]
def test():
    while not requests[1].Test():
        pass
calls = [
    lambda: MPI.Request.Waitany(requests),
    test,
    requests[2].Wait,
    lambda: comm.Probe(1),
    lambda: comm.Ssend(room, 1),
    lambda: comm.Recv(room),
]
for call in calls:
    try:
        call()
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_PROC_FAILED, error
    else:
        raise AssertionError(call)
sys.stdout.write("all fail")
sys.stdout.flush()
os._exit(0)
"""


#: Rank 1 leaves while rank 0 waits for it, in each way; a posted receive may wait, and
#: so may one beside another that rank 2 serves.
LEAVES = """
import os, sys, time
import numpy as np
if sys.argv[1] == "several":
    os.environ["COLLALGO_HOST"] = os.environ["RANK"]
from mpi4py import MPI
from collalgo.integrations.as_mpi4py import finalized
finalized.TEST_SECONDS = 0.2
comm, room, long = MPI.COMM_WORLD, np.zeros(1), np.zeros(1 << 20)
if comm.rank == 1:
    comm.send("last", 0)
    sys.exit(0)
if comm.rank == 2:
    comm.recv(source=0)
    time.sleep(0.5)
    comm.send("later", 0)
    comm.recv(source=0)
    sys.exit(0)
posted = comm.Irecv(room, 1, 7)
assert comm.recv(source=1) == "last"
try:
    comm.Recv(room, 1)
except MPI.Exception:
    comm.send("go", 2)
other = comm.irecv(source=2)
assert MPI.Request.waitany([posted, other]) == (1, "later")
comm.send("end", 2)
def receives():
    return [comm.Irecv(room, 1, 11), comm.Irecv(room, 1, 12)]
def until(test):
    while not test():
        pass
calls = [
    lambda: MPI.Request.Waitany(receives()),
    lambda: MPI.Request.Waitsome(receives()),
    lambda: comm.Irecv(room, 1).Wait(),
    lambda: MPI.Request.Waitall([comm.irecv(source=1)]),
    lambda: until(comm.Irecv(room, 1, 9).Test),
    lambda: until(lambda: MPI.Request.Testany([r])[1]),
    lambda: until(lambda: MPI.Request.Testsome([r])),
    lambda: until(lambda: MPI.Request.Testall([r])),
    lambda: (until(r.Get_status), r.Wait()),
    lambda: until(lambda: comm.Iprobe(1)),
    lambda: until(comm.Ialltoallv([room, (0, 0, 0)], [room, (1, 0, 0)]).Test),
    lambda: comm.Recv(room, 1),
    lambda: comm.Recv(room),
    lambda: comm.Probe(1),
    lambda: comm.Ssend(room, 1),
    lambda: comm.Send(long, 1),
    lambda: comm.recv(),
]
for call in calls:
    r = comm.Irecv(room, 1, 10)
    try:
        call()
    except MPI.Exception as error:
        assert "rank 1 of the world has called MPI_Finalize" in str(error), error
    else:
        raise AssertionError(call)
posted.Cancel()
posted.Wait()
print("all fail", flush=True)
"""


@pytest.mark.parametrize("hosts", ["one", "several"])
def test_messages_with_a_rank_that_has_ended_fail(hosts):
    job = started(3, sys.executable, "-c", LEAVES, hosts, seconds=60)
    assert "all fail" in job.stdout, job.stdout + job.stderr


#: Rank 1 leaves while a thread of rank 0 waits for a message of any rank: of its own.
TO_ITSELF = """
import sys, time
from threading import Thread
from mpi4py import MPI
comm, found = MPI.COMM_WORLD, []
if comm.rank:
    sys.exit(0)
thread = Thread(target=lambda: found.append(comm.recv()))
thread.start()
time.sleep(0.5)
comm.send("own", 0)
thread.join()
print(*found, flush=True)
"""


def test_a_rank_may_send_to_itself_after_the_others_have_ended():
    job = started(2, sys.executable, "-c", TO_ITSELF, seconds=60)
    assert "own" in job.stdout, job.stdout + job.stderr


ATTRIBUTE = """
import sys
from mpi4py import MPI
key = MPI.Comm.Create_keyval(delete_fn=lambda comm, key, value: print(comm.rank, value))
MPI.COMM_SELF.Set_attr(key, "deleted")
"""


def test_the_end_deletes_the_attributes_of_comm_self():
    job = started(1, sys.executable, "-c", ATTRIBUTE, seconds=30)
    assert "0 deleted" in job.stdout, job.stderr


def test_all_that_wait_for_a_dead_rank_fail():
    job = started(2, sys.executable, "-c", DEATHS, seconds=30)
    assert "all fail" in job.stdout, job.stderr


def received_from(matching, sender):
    room = np.zeros(5000, np.int64)
    receive = Receive(matching, [sender], 8, sender, 0, simple(room).target)
    matching.receive(receive)
    receive.wait()
    return room[0]


def test_more_short_messages_than_a_rank_keeps_arrive_in_their_order():
    def on_each_rank(comm):
        comm.timeout = 30
        matching, other = Matching(comm), 1 - comm.rank
        sends = [
            matching.send(8, comm.rank, other, 0, np.full(2000, number))
            for number in range(400)  # of 16,000 bytes
        ]
        found = [received_from(matching, other) for _ in sends]
        assert found == list(range(400))
        for send in sends:
            send.wait()
            assert send.error is None

    threads(on_each_rank, 2, timeout=60)


class Failing:
    """Messages whose first poll fails; then it sets an event."""

    is_waiting = True

    def __init__(self):
        self.polls, self.polled = [], threading.Event()

    def listen(self):
        pass

    def poll(self):
        self.polls.append(None)
        if len(self.polls) == 1:
            raise MemoryError
        self.polled.set()
        raise MpiException(NUMBERS["ERR_OTHER"])


def test_messages_are_served_again_after_an_error(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda _: ended.set())
    matching = Failing()
    serving = Serving(matching)
    serving.count_call()
    assert ended.wait(30)
    serving.count_call()
    assert matching.polled.wait(30)


def test_a_message_that_nobody_sends_is_given_up():
    def on_each_rank(comm):
        comm.timeout = 0.05
        with pytest.raises(
            MpiException, match=r"rank 0 with tag 0 .* 0\.05 s"
        ) as error:
            received_from(Matching(comm), 0)
        assert error.value.Get_error_class() == NUMBERS["ERR_PENDING"]
        receive = Receive(Matching(comm), [0], 8, 0, 0, simple(np.zeros(1)).target)
        with pytest.raises(MpiException, match=r"0\.05 s"):
            wait_for_any([receive])

    threads(on_each_rank, 1, timeout=60)


@pytest.mark.parametrize("ends_first", [True, False])
def test_a_freed_request_reports_its_end_once(ends_first):
    ends = []
    request = Grequest.Start(free_fn=lambda: ends.append("over"))
    other = Grequest(request)
    for act in (other.Complete, request.Free)[:: 1 if ends_first else -1]:
        assert ends == []
        act()
    assert ends == ["over"]
