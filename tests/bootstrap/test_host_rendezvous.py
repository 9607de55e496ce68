"""The rendezvous of one host, with visitors that are no ranks of the job."""

import os
import secrets
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from collalgo.bootstrap import host_root
from collalgo.bootstrap.rendezvous import HostRendezvous, address_of
from tests.support.paths import ROOT

#: A process of another user that connects many times, then prints what it is told.
STRANGER = """
import os, socket, sys
os.setuid(65534)
connections = []
for _ in range(300):
    connections.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    connections[-1].connect("\\0" + sys.argv[1])
print({one.recv(500).decode() for one in connections})
"""

#: A process that connects many times, once somebody listens, and stays.
VISITOR = """
import socket, sys, time
connections = []
while len(connections) < 30:
    connections.append(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    try:
        connections[-1].connect("\\0" + sys.argv[1])
    except OSError:
        connections.pop().close()
        time.sleep(0.01)
time.sleep(60)
"""

#: Rank 0 of 40, which may open 20 files; another process connects again and again.
FEW = """
import os, resource, subprocess, sys
from collalgo import BootstrapError
from collalgo.bootstrap.rendezvous import HostRendezvous, address_of

job = str(os.getpid())
visitor = subprocess.Popen([sys.executable, sys.argv[1], address_of(job)[1:]])
resource.setrlimit(resource.RLIMIT_NOFILE, (20, 4096))
try:
    HostRendezvous(job).connect("", 0, range(40), 20)
except BootstrapError as error:
    print(error)
finally:
    visitor.kill()
    visitor.wait()
"""


def worlds(job, size, meanwhile):
    """Let rank 0 wait, call a function, then let the others join; close all."""
    with ThreadPoolExecutor(size) as pool:

        def joined(rank):
            return HostRendezvous(job).connect("", rank, range(size), 20)

        first = pool.submit(joined, 0)
        try:
            meanwhile(address_of(job))
        finally:
            others = [pool.submit(joined, rank) for rank in range(1, size)]
            for context in [each.result() for each in (first, *others)]:
                context.transport.close()


def visit(address):
    """A connection, once the root listens."""
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(address)
        except (ConnectionRefusedError, BlockingIOError):
            connection.close()
        else:
            connection.settimeout(20)
            return connection


@pytest.mark.parametrize("size", [2, 5])
def test_silent_visitors_take_no_more_than_some_descriptors(size):
    with ExitStack() as stack:

        def meanwhile(address):
            most = host_root.VISITORS + size
            visitors = [stack.enter_context(visit(address)) for _ in range(3 * most)]
            for visitor in visitors[: 2 * most]:  # the oldest are refused
                assert b"not sent its rank" in visitor.recv(500)

        worlds(secrets.token_hex(8), size, meanwhile)


def test_a_visitor_that_has_left_is_forgotten():
    def meanwhile(address):
        for _ in range(10):
            visit(address).close()

    worlds(secrets.token_hex(8), 3, meanwhile)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_refused_at_the_door():
    def meanwhile(address):
        visit(address).close()
        done = subprocess.run(
            [sys.executable, "-c", STRANGER, address[1:]],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stdout == str({f"user 65534 is not user {os.geteuid()}"}) + "\n"

    worlds(secrets.token_hex(8), 2, meanwhile)


def test_a_root_without_descriptors_says_so(tmp_path):
    visitor = tmp_path / "visitor.py"
    visitor.write_text(VISITOR)
    done = subprocess.run(
        [sys.executable, "-c", FEW, visitor], cwd=ROOT,
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "rank 0 cannot accept the ranks that join" in done.stdout
    assert "at most" in done.stdout
    assert "ulimit -n" in done.stdout
