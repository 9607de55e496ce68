"""What remains of commands on a cluster that are killed: nothing."""

import os
import subprocess
import sys
from pathlib import Path

from collalgo.bench.cluster.leftovers import guarded_folder, marked

from tests.support.clusters import needs_root
from tests.support.store_clients import until

#: Starts a process in a session of its own, and another that has ended, in a folder.
COMMAND = """
import os, subprocess, sys, time
from collalgo.bench.cluster.leftovers import guarded_folder, marked

with guarded_folder(*sys.argv[1:]) as folder:
    environment = os.environ | marked(folder)
    begun = subprocess.Popen(["sleep", "100"], env=environment, start_new_session=True)
    print(folder, begun.pid, flush=True)
    time.sleep(100)
"""


def killed(*namespaces):
    """The folder of a command that is killed, once its process has ended."""
    words = [sys.executable, "-c", COMMAND, *namespaces]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as command:
        folder, process = command.stdout.readline().split()
        assert Path(folder).is_dir()
        command.kill()
    until(lambda: not runs(int(process)))
    return Path(folder)


def runs(process):
    """Whether a process exists that has not ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] not in "ZX"
    except OSError:
        return False


def test_a_killed_command_leaves_no_process_and_no_folder():
    folder = killed()
    until(lambda: not folder.exists())


@needs_root
def test_a_killed_command_leaves_no_namespace():
    name = f"collalgo-leftovers-{os.getpid()}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    inside = subprocess.Popen(["ip", "netns", "exec", name, "sleep", "100"])
    until(lambda: str(inside.pid) in pids(name))
    killed(name)
    assert inside.wait(5) < 0
    until(lambda: name not in os.listdir("/run/netns"))


def pids(namespace):
    """The processes in a namespace."""
    command = ["ip", "netns", "pids", namespace]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.split()


def test_a_command_that_ends_leaves_its_processes():
    with guarded_folder() as folder:
        begun = subprocess.Popen(["sleep", "100"], env=os.environ | marked(folder))
    assert not folder.exists()
    assert begun.poll() is None
    begun.kill()
    begun.wait()
