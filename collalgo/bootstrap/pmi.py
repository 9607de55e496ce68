"""A client of PMI 1, the protocol of the launchers of MPICH and Intel MPI, and of srun.

Ranks connect over it without an MPI library. Messages are lines of
``name=value``: see "PMI v1 wire protocol" in the wiki of MPICH.
"""

import atexit
import os
import select
import time
from collections.abc import Mapping
from contextlib import suppress

from collalgo.errors import BootstrapError

#: The environment variable of the descriptor that leads to the launcher.
VARIABLE = "PMI_FD"

#: The prefix of each value, because a launcher refuses an empty one.
MARK = "."

#: Bytes of a line at most.
LONGEST = 1 << 16


class Pmi:
    """The connection of this process with its launcher, made once.

    Attributes
    ----------
    rank, size : int
        The rank of this process, and the number of processes.
    timeout : float
        Seconds to wait for an answer of the launcher, and so for the other ranks.
    longest_text : int
        Characters of ASCII of the longest text that the launcher takes.
    """

    def __init__(self, descriptor: int, rank: int, size: int):
        self.rank = rank
        self.size = size
        self.timeout = 60.0
        self._descriptor = descriptor
        self._read = b""
        self._count = 0
        self._ask("init", pmi_version="1", pmi_subversion="1")
        self._longest = int(self._ask("get_maxes").get("vallen_max", "256"))
        self.longest_text = (self._longest - 1 - len(MARK)) // 2
        self._space = self._ask("get_my_kvsname").get("kvsname", "")
        atexit.register(self._finalize, os.getpid())

    def allgather(self, text: str) -> list[str]:
        """The texts of all processes, in the order of their ranks."""
        self._put(f"collalgo-{self._count}-{self.rank}", text)
        self._ask("barrier_in")
        texts = [
            self._get(f"collalgo-{self._count}-{other}") for other in range(self.size)
        ]
        self._count += 1
        return texts

    def broadcast(self, text: str) -> str:
        """The text of rank 0."""
        key = f"collalgo-{self._count}"
        if self.rank == 0:
            self._put(key, text)
        self._ask("barrier_in")
        self._count += 1
        return self._get(key)

    def _put(self, key: str, text: str) -> None:
        value = MARK + text.encode().hex()
        if len(value) >= self._longest:
            raise BootstrapError(
                f"the launcher limits PMI values to {self._longest} bytes, but rank "
                f"{self.rank} has one of {len(value)} bytes to send",
                rank=self.rank,
            )
        self._ask("put", kvsname=self._space, key=key, value=value)

    def _get(self, key: str) -> str:
        answer = self._ask("get", kvsname=self._space, key=key)
        return bytes.fromhex(answer["value"].removeprefix(MARK)).decode()

    def _ask(self, command: str, **words: str) -> dict[str, str]:
        """Send a command to the launcher, and return its answer."""
        line = " ".join(f"{name}={value}" for name, value in words.items())
        try:
            os.write(
                self._descriptor, f"cmd={command} {line}".rstrip().encode() + b"\n"
            )
            answer = _words(self._line())
        except (OSError, EOFError, ValueError) as error:
            raise BootstrapError(
                f"the launcher of rank {self.rank} does not answer {command} by PMI "
                f"({error})",
                rank=self.rank,
            ) from None
        if answer.get("rc", "0") != "0":
            raise BootstrapError(
                f"the launcher of rank {self.rank} refuses {command}: {answer}",
                rank=self.rank,
            )
        return answer

    def _line(self) -> str:
        deadline = time.monotonic() + self.timeout
        while b"\n" not in self._read:
            left = max(deadline - time.monotonic(), 0)
            if not select.select([self._descriptor], [], [], left)[0]:
                raise TimeoutError(f"no answer in {self.timeout:g} s")
            part = os.read(self._descriptor, 4096)
            if not part:
                raise EOFError("it has closed the connection")
            self._read += part
            if len(self._read) > LONGEST:
                raise ValueError(f"a line of more than {LONGEST} bytes")
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()

    def _finalize(self, process: int) -> None:
        """Leave, unless this is a forked child of the process."""
        if os.getpid() == process:
            with suppress(BootstrapError):
                self._ask("finalize")


def _words(line: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in line.split())
    return {name: value for name, _, value in pairs}


_connections: dict[int, Pmi] = {}


def connection(
    environment: Mapping[str, str], rank: int, size: int, timeout: float
) -> Pmi:
    """The connection with the launcher that the environment names."""
    descriptor = int(environment[VARIABLE])
    made = _connections.get(descriptor)
    if made is None:
        made = _connections[descriptor] = Pmi(descriptor, rank, size)
    made.timeout = timeout
    return made
