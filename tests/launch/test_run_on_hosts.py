"""Functions run on several hosts: results, exceptions, and hosts that are lost."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest

import collalgo
from collalgo import BootstrapError, CollalgoError, PeerFailed, run
from collalgo.bootstrap.store.protocol import VALUE_BYTES
from tests.support.rank_functions import rank_times


def of_each(comm, length, host_of):
    """A long result, and what the rank knows of its job."""
    collalgo.allreduce(np.ones(3))
    assert "networkx" not in sys.modules  # its import would be a fifth of the start
    print("hello from", comm.rank)
    place = os.environ["COLLALGO_HOST"], os.environ["CROSS_RANK"]
    return np.full(length, comm.rank), comm.hosts, host_of(place)


@pytest.mark.usefixtures("rsh")
def test_results_of_several_hosts_come_in_the_order_of_ranks(tmp_path):
    """Also from a thread of a notebook, whose output is not a file of the system."""
    pytest.importorskip("cloudpickle")
    file, length = tmp_path / "hosts", VALUE_BYTES // 4
    file.write_text("a slots=2\nb slots=1\n")
    written, found = io.StringIO(), []

    def work():
        given = (length, lambda place: "@".join(place))
        found.extend(run(of_each, given, str(file), timeout=60))

    with contextlib.redirect_stdout(written):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [place for *_, place in found] == ["a@0", "a@0", "b@1"]
    for rank, (array, hosts, _) in enumerate(found):
        assert (array == rank).all()
        assert (array.size, hosts) == (length, (0, 0, 1))
    lines = written.getvalue().splitlines()
    assert sorted(lines) == [f"[{rank}] hello from {rank}" for rank in range(3)]


def fails_on_rank_1(comm, how):
    if comm.rank == 1:
        how()
    comm.barrier()
    comm.barrier()


def raise_planted():
    raise KeyError("planted")


@pytest.mark.usefixtures("rsh")
def test_the_exception_of_another_host_is_raised_with_its_traceback(capsys):
    with pytest.raises(KeyError, match="planted") as caught:
        run(fails_on_rank_1, [raise_planted], ["a:1", "b:1"], timeout=60)
    assert "raised on rank 1" in str(caught.value.__cause__)
    assert 'raise KeyError("planted")' in str(caught.value.__cause__)
    assert "ended with exit code" not in capsys.readouterr().err


@pytest.mark.usefixtures("rsh")
def test_a_process_that_ends_on_another_host_is_named():
    with pytest.raises(
        CollalgoError, match=r"^rank 1 ended with exit code 3"
    ) as caught:
        run(fails_on_rank_1, [partial(os._exit, 3)], "a:1,b:1", timeout=60)
    assert type(caught.value) is not PeerFailed
    assert (caught.value.rank, caught.value.missing) == (1, (1,))


def kill_agent():
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@pytest.mark.usefixtures("rsh")
def test_a_host_that_is_lost_is_named_with_its_ranks():
    with pytest.raises(CollalgoError, match=r"^host b is lost: .* ended with -9") as e:
        run(fails_on_rank_1, [kill_agent], "a:1,b:1", timeout=60)
    assert e.value.missing == (1,)


@pytest.mark.usefixtures("rsh")
def test_a_host_that_cannot_be_reached_is_an_error():
    with pytest.raises(BootstrapError, match="host nowhere cannot be used"):
        run(rank_times, hosts="a:1,nowhere:1")
    with pytest.raises(BootstrapError, match="hosts is 5; pass 'a:4,b:4'"):
        run(rank_times, hosts=5)
    with pytest.raises(BootstrapError, match=r"hosts is \[\]; pass"):
        run(rank_times, hosts=[])


def gathers(comm):
    for length in range(1, 40):
        comm.reduce(np.ones(length))
        comm.gather(np.ones(length))


@pytest.mark.usefixtures("rsh")
def test_an_engine_that_ends_does_not_warn(capfd):
    """Whose last message the other rank has not yet acknowledged."""
    for _ in range(2):
        run(gathers, hosts="a:1,b:1", timeout=60)
    assert "WARN" not in "".join(capfd.readouterr())


AGAIN = """
import collalgo
collalgo.init(timeout=20).close()
try:
    print(collalgo.init(timeout=20, join_timeout=20).size)
except collalgo.BootstrapError as error:
    print(error)
"""


@pytest.mark.usefixtures("rsh")
@pytest.mark.parametrize(
    ("where", "said"),
    [(("-n", "2"), "2"), (("-H", "a:1,b:1"), "rank .* has joined this job before")],
)
def test_a_world_of_several_hosts_is_joined_once(where, said, tmp_path):
    (tmp_path / "job.py").write_text(AGAIN)
    run = [sys.executable, "-m", "collalgo", "run", *where, sys.executable]
    done = subprocess.run(
        [*run, tmp_path / "job.py"], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(rf"^\[\d\] {said}", done.stdout, re.MULTILINE)) == 2
