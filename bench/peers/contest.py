"""Time the same cells with several libraries alternately, all started at once.

Each contestant has its own processes. Only one contestant runs at a time; the processes
of the others sleep. Cells are measured in short bursts in random order, so that a
disturbance of the machine affects all contestants alike.
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

#: The timeouts of a contestant to start, and to answer, in seconds.
START, ANSWER = 120.0, 300.0

#: The seconds of a burst, and its fewest and most calls.
BURST = 0.02
FEWEST, MOST = 4, 2000

#: The timed bursts of a contestant, the trial bursts before them that find the number
#: of calls in a burst, and the largest growth of that number from one to the next.
ROUNDS, TRIALS, GROWTH = 5, 3, 8.0

OURS = "collalgo"

Times = NDArray[np.float64]


class ContestError(RuntimeError):
    """A contestant failed; the message has the end of its output."""


class Contestant:
    """The ranks of a library, waiting for commands."""

    def __init__(self, name: str, log: IO[str]):
        self.name = name
        self.version = ""
        self.profile: dict[str, Any] | None = None  # of the host, if it has one
        self._log = log
        self._processes: list[subprocess.Popen[str]] = []
        self._streams: dict[int, IO[str]] = {}

    def start(self, command: Sequence[str], **options: Any) -> None:
        """Start one of its processes."""
        made = subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
        self._processes.append(made)

    def add(self, hello: Mapping[str, Any], stream: IO[str]) -> None:
        """Add a rank that has started."""
        self.version, self.profile = hello["version"], hello["profile"]
        self._streams[hello["rank"]] = stream

    @property
    def ranks(self) -> int:
        return len(self._streams)

    def ask(self, command: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Send a command to all ranks, and return their answers by rank."""
        try:
            for stream in self._streams.values():
                stream.write(json.dumps(command) + "\n")
                stream.flush()
            return [_answer(self._streams[rank]) for rank in range(self.ranks)]
        except (OSError, ValueError) as error:
            raise self.failure(f"does not answer ({error})") from None

    def failure(self, what: str) -> ContestError:
        """The error to raise, with the end of the output of the ranks."""
        self._log.seek(0)
        said = "".join(self._log.readlines()[-20:])
        return ContestError(f"{self.name} {what}\n{said}")

    def check_alive(self) -> None:
        for process in self._processes:
            if process.poll() is not None:
                raise self.failure(f"ended with exit code {process.returncode}")

    def close(self) -> None:
        """End the ranks; kill those that do not end in time."""
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
        """The time of each of ``iterations`` calls, on the slowest rank."""
        answers = self.ask({"times": iterations})
        times: Times = np.max([a["seconds"] for a in answers], axis=0)
        return times

    def first_seconds(self, specs: Sequence[Mapping[str, Any]]) -> Times:
        """The time of one call of each of some specs that it supports."""
        answers = self.ask({"first": list(specs)})
        times: Times = np.max([a["seconds"] for a in answers], axis=0)
        return times


def _answer(stream: IO[str]) -> dict[str, Any]:
    """The next answer of a rank.

    Raises
    ------
    OSError
        If the rank has ended.
    """
    line = stream.readline()
    if not line:
        raise ConnectionError("a rank has ended")
    answer: dict[str, Any] = json.loads(line)
    return answer


@contextmanager
def contestants(
    peers: Sequence[Peer], ranks: int, *, ours: bool = True
) -> Iterator[list[Contestant]]:
    """Start collalgo, unless ``ours`` is false, and the peers, on ``ranks`` ranks each.

    Raises
    ------
    ContestError
        If one does not start.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(folder / "listener"))
        listener.listen(ranks * (len(peers) + 1))
        found = []
        for peer in (*[None] * ours, *peers):
            one = _start(peer, ranks, folder)
            stack.callback(one.close)
            _accept(listener, one, ranks)
            found.append(one)
        yield found


def _start(peer: Peer | None, ranks: int, folder: Path) -> Contestant:
    """Start the processes of a peer, or those of collalgo."""
    name = peer.name if peer else OURS
    log = (folder / f"{name}.log").open("w+")
    command = _command(peer, ranks, folder)
    environments = [dict(os.environ)]
    if peer is not None:
        if not peer.launcher:
            environments = [_of_rank(rank, ranks, folder) for rank in range(ranks)]
        # Where mpiexec puts files that it leaves when it is killed.
        settings = {**peer.settings, "TMPDIR": str(folder)}
        environments = [{**one, **settings} for one in environments]
    streams: dict[str, Any] = {"stdout": log, "stderr": log, "text": True}
    found = Contestant(name, log)
    try:
        for one in environments:
            found.start(command, env=one, **streams)
    except BaseException:
        found.close()
        raise
    return found


def _command(peer: Peer | None, ranks: int, folder: Path) -> list[str]:
    """The command line of a peer, or of collalgo: its launcher, or one rank."""
    name, kind = (peer.name, peer.kind) if peer else (OURS, OURS)
    script = [worker.__file__, name, kind, str(folder / "listener")]
    number = ["-n", str(ranks)]
    if peer is None:
        run = ["-c", "from collalgo.cli.main import main; main()", "run"]
        return [sys.executable, *run, *number, "--", sys.executable, *script]
    binaries = install(peer) / "bin"
    command = [str(binaries / "python"), *script]
    if peer.launcher:
        program, *options = peer.launcher
        return [str(binaries / program), *number, *options, *command]
    return command


def _of_rank(rank: int, ranks: int, folder: Path) -> dict[str, str]:
    """The environment of a rank started without a launcher."""
    where = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "STORE": str(folder / "gloo")}
    return {**os.environ, **where}


def _accept(listener: socket.socket, one: Contestant, ranks: int) -> None:
    """Wait until all ranks have started."""
    left = START
    while one.ranks < ranks:
        listener.settimeout(1.0)
        try:
            connection, _ = listener.accept()
        except TimeoutError:
            one.check_alive()
            left -= 1.0
            if left < 0:
                raise one.failure("does not start") from None
            continue
        with connection:  # the stream keeps it open
            connection.settimeout(ANSWER)
            stream = connection.makefile("rw")
        try:
            one.add(_answer(stream), stream)
        except (OSError, ValueError) as error:
            raise one.failure(f"does not start ({error})") from None


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
    """The times of each contestant that supports the call, an array for each burst.

    For ``fresh`` and ``in_a_row`` see :class:`collalgo.bench.sweep.Sweep`.

    Raises
    ------
    ContestError
        If a contestant fails, or the result of collalgo is wrong.
    """
    ranks = field[0].ranks
    more = {"warmup": warmup, "algorithm": algorithm, "check": check}
    spec = cell.spec(ranks) | more | {"fresh": fresh, "in_a_row": in_a_row}
    able = [one for one in field if _prepare(one, cell, spec)]
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


def _prepare(contestant: Contestant, cell: Cell, spec: Mapping[str, Any]) -> bool:
    """Prepare a call, and return whether the contestant supports it.

    Raises
    ------
    ContestError
        If the result is wrong.
    """
    answer = contestant.ask({"prepare": spec})[0]
    if answer["wrong"]:
        raise contestant.failure(f"gave {answer['wrong']} wrong elements of {cell}")
    return bool(answer["able"])
