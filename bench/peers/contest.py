"""Time the same cells with several libraries, all alive at once, in turns.

Every contestant has its own processes, of which those of one are at work at a time and
all others sleep. Cells are measured in short bursts in random order, so that what
disturbs the machine disturbs all alike.
"""

import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from time import perf_counter
from typing import IO, Any

import numpy as np
from collalgo.bench.cells import Cell
from collalgo.bench.peers import worker
from collalgo.bench.peers.environments import Peer, install
from numpy.typing import NDArray

#: Seconds that a contestant has to come up, and to answer.
COME_UP, ANSWER = 120.0, 300.0

#: Seconds of a burst, and how many calls it has at least and at most.
BURST = 0.02
FEWEST, MOST = 4, 2000

#: How often every contestant has a burst, after some that find out how many calls fit
#: into one, and how many times as many these may be as before.
ROUNDS, TRIALS, GROWTH = 5, 3, 8.0

OURS = "collalgo"

Times = NDArray[np.float64]


class ContestError(RuntimeError):
    """A contestant has failed: which one, and what it said last."""


class Contestant:
    """The ranks of a library, waiting for commands."""

    def __init__(
        self, name: str, log: IO[str], processes: Sequence[subprocess.Popen[str]]
    ):
        self.name = name
        self.version = ""
        self._log = log
        self._processes = processes
        self._streams: dict[int, IO[str]] = {}

    def add(self, rank: int, version: str, stream: IO[str]) -> None:
        """Take in a rank that has come up."""
        self.version = version
        self._streams[rank] = stream

    @property
    def ranks(self) -> int:
        return len(self._streams)

    def ask(self, command: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Let all ranks do something: their answers, by rank."""
        try:
            for stream in self._streams.values():
                stream.write(json.dumps(command) + "\n")
                stream.flush()
            lines = [self._streams[rank].readline() for rank in range(self.ranks)]
            return [json.loads(line) for line in lines]
        except (OSError, ValueError) as error:
            raise self.failure(f"gives no answer ({error})") from None

    def failure(self, what: str) -> ContestError:
        """The error to raise, with the end of what the ranks have said."""
        self._log.seek(0)
        said = "".join(self._log.readlines()[-20:])
        return ContestError(f"{self.name} {what}\n{said}")

    def check_alive(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise self.failure(f"ended with exit code {process.returncode}")

    def close(self) -> None:
        """Let the ranks end, and see that they do."""
        for stream in self._streams.values():
            with suppress(OSError):
                stream.close()
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def seconds(self, iterations: int) -> Times:
        """The time of each of some calls, which is that of the slowest rank."""
        answers = self.ask({"times": iterations})
        times: Times = np.max([a["seconds"] for a in answers], axis=0)
        return times


@contextmanager
def contestants(peers: Sequence[Peer], ranks: int) -> Iterator[list[Contestant]]:
    """Ourselves and the peers, come up with so many ranks each.

    Raises
    ------
    ContestError
        If one does not come up.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        door = stack.enter_context(socket.socket(socket.AF_UNIX))
        door.bind(str(folder / "door"))
        door.listen(ranks * (len(peers) + 1))
        found = []
        for peer in (None, *peers):
            one = _start(peer, ranks, folder)
            stack.callback(one.close)
            _admit(door, one, ranks)
            found.append(one)
        yield found


def _start(peer: Peer | None, ranks: int, folder: Path) -> Contestant:
    """Start the processes of a peer, or our own."""
    name = peer.name if peer else OURS
    log = (folder / f"{name}.log").open("w+")
    script = [worker.__file__, name, peer.kind if peer else OURS, str(folder / "door")]
    number = ["-n", str(ranks)]
    environments = [dict(os.environ)]
    if peer is None:
        run = ["-c", "from collalgo.cli.main import main; main()", "run"]
        command = [sys.executable, *run, *number, "--", sys.executable, *script]
    else:
        binaries = install(peer) / "bin"
        command = [str(binaries / "python"), *script]
        if peer.launcher:
            program, *options = peer.launcher
            command = [str(binaries / program), *number, *options, *command]
        else:
            environments = [_of_rank(rank, ranks, folder) for rank in range(ranks)]
        environments = [{**one, **peer.settings} for one in environments]
    streams: dict[str, Any] = {"stdout": log, "stderr": log, "text": True}
    processes = [
        subprocess.Popen(command, env=one, stdin=subprocess.DEVNULL, **streams)
        for one in environments
    ]
    return Contestant(name, log, processes)


def _of_rank(rank: int, ranks: int, folder: Path) -> dict[str, str]:
    """The environment of a rank that no launcher starts."""
    where = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "STORE": str(folder / "gloo")}
    return {**os.environ, **where}


def _admit(door: socket.socket, one: Contestant, ranks: int) -> None:
    """Wait until all ranks have come up."""
    patience = COME_UP
    while one.ranks < ranks:
        door.settimeout(1.0)
        try:
            connection, _ = door.accept()
        except TimeoutError:
            one.check_alive()
            patience -= 1.0
            if patience < 0:
                raise one.failure("does not come up") from None
            continue
        with connection:  # which stays open as long as its stream
            connection.settimeout(ANSWER)
            stream = connection.makefile("rw")
        hello = json.loads(stream.readline())
        one.add(hello["rank"], hello["version"], stream)


def race_cell(
    field: Sequence[Contestant],
    cell: Cell,
    algorithm: str | None = None,
    *,
    warmup: int = 2,
    rounds: int = ROUNDS,
    check: bool = True,
    fresh: bool = True,
    in_a_row: int = 1,
) -> dict[str, list[Times]]:
    """The times of each contestant that has the call: an array for each burst.

    ``fresh`` and ``in_a_row`` are as of :class:`collalgo.bench.measuring.Sweep`.

    Raises
    ------
    ContestError
        If a contestant fails, or our own result is wrong.
    """
    ranks = field[0].ranks
    more = {"warmup": warmup, "algorithm": algorithm, "check": check}
    spec = cell.spec(ranks) | more | {"fresh": fresh, "in_a_row": in_a_row}
    able = []
    for one in field:
        answer = one.ask({"prepare": spec})[0]
        if answer["wrong"]:
            raise one.failure(f"gave {answer['wrong']} wrong elements of {cell}")
        if answer["able"]:
            able.append(one)
    calls = {one.name: FEWEST for one in able}
    times: dict[str, list[Times]] = {one.name: [] for one in able}
    for turn in range(TRIALS + rounds):
        for one in random.sample(able, len(able)):
            start = perf_counter()
            seconds = one.seconds(calls[one.name])
            if turn >= TRIALS:
                times[one.name].append(seconds)
            growth = min(BURST / (perf_counter() - start), GROWTH)
            calls[one.name] = int(np.clip(calls[one.name] * growth, FEWEST, MOST))
    for one in field:
        one.ask({"forget": True})
    return times
