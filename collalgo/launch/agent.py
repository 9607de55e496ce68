"""Starts the ranks of one host for ``collalgo run -H``, which talks to it by ssh.

It greets on standard output, is told on standard input what to run, and stops the ranks
when standard input ends: so nothing is left behind when the launcher or the connection
is gone.
"""

import json
import os
import signal
import sys
from threading import Thread
from typing import Any

from collalgo._version import __version__
from collalgo.bootstrap.interfaces import addresses
from collalgo.launch.output import sinks
from collalgo.launch.ranks import Order, free_port, run_ranks, threads

#: What the launcher waits for; an address and a free port of this host follow.
GREETING = f"collalgo agent {__version__}"


def main() -> int:
    """Run what standard input says: the exit code of the ranks of this host."""
    sys.stdout.write(f"{GREETING} {_address()} {free_port()}\n")
    sys.stdout.flush()
    spec: dict[str, Any] = json.loads(sys.stdin.buffer.readline() or b"{}")
    if not spec:
        return 0  # the launcher has only wanted to see whether I come up
    os.chdir(spec["folder"])
    few = threads(len(spec["ranks"]))
    environment = {**few, **os.environ, **spec["environment"]}
    orders = [
        Order(int(rank), {**environment, **own}) for rank, own in spec["ranks"].items()
    ]
    Thread(target=_until_the_launcher_ends, daemon=True).start()
    return run_ranks(spec["command"], orders, sinks(), of_many=True)


def _address() -> str:
    """Where others reach this host: as the launcher has, if it came by ssh."""
    came_by = os.environ.get("SSH_CONNECTION", "").split()
    return came_by[2] if len(came_by) == 4 else addresses(loopback=True)[0]


def _until_the_launcher_ends() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
