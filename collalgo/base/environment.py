"""The environment variables of the library: one table, with their values and meanings.

A variable that is empty counts as not set.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from warnings import warn

from collalgo.base.variable_values import (
    MISSING,
    address,
    command,
    duration,
    engine,
    file,
    hexadecimal,
    names,
    nbytes,
    one_of,
    seconds,
    span,
    text,
)
from collalgo.errors import VariableError

#: The begin of all names.
PREFIX = "COLLALGO_"


class Variable(NamedTuple):
    """An environment variable.

    Attributes
    ----------
    name : str
        Its name, without the prefix in the table.
    summary : str
        Its meaning, for the documentation.
    parse : callable
        Its value from the text; raises ValueError with the reason of a wrong value.
    default : str
        Its default, for the documentation.
    internal : bool
        Whether the library sets it for its processes, not the user.
    of_first_rank : bool
        Whether only rank 0 reads it, and gives all others its value.
    """

    name: str
    summary: str
    parse: Callable[[str], Any] = text
    default: str = ""
    internal: bool = False
    of_first_rank: bool = False

    def given(self, environment: Mapping[str, str] | None = None) -> str:
        """Its text; empty if it is not set."""
        return (os.environ if environment is None else environment).get(self.name, "")

    def value(self, environment: Mapping[str, str] | None = None) -> Any:
        """Its value; None if it is not set.

        Raises
        ------
        VariableError
            If it has no such value.
        """
        given = self.given(environment)
        if not given:
            return None
        try:
            return self.parse(given)
        except ValueError as error:
            raise self.wrong(str(error), given) from None

    def wrong(self, why: str, given: str | None = None) -> VariableError:
        """The error that its value is wrong."""
        shown = self.given() if given is None else given
        if self.parse is hexadecimal:  # a secret
            shown = f"({len(shown)} characters)"
        if why == MISSING:
            return VariableError(f"{self.name} names a file {why}: {shown}")
        return VariableError(f"the environment variable {self.name}={shown} {why}")


TIMEOUT = Variable(
    f"{PREFIX}TIMEOUT", "Seconds that calls wait for other ranks", seconds,
    "300; torch's 30 minutes under torch; none under `--as-mpi4py` and `--preload`",
)  # fmt: skip
ENGINE = Variable(
    f"{PREFIX}ENGINE", "The engine between hosts, without a fallback", engine,
    "MPI under an mpiexec, else UCX",
)  # fmt: skip
UCX = Variable(
    f"{PREFIX}UCX", "The library `libucp.so.0` to use", text,
    "the library of the package libucx, or of the system",
)  # fmt: skip
INTERFACES = Variable(
    f"{PREFIX}INTERFACES", "The interfaces between hosts, as `eth0,ib0`", names, "all"
)
TOPOLOGY = Variable(
    f"{PREFIX}TOPOLOGY",
    "The topology file of several hosts, with a core for each rank; no effect on one",
    file, "the detected topology", of_first_rank=True,
)  # fmt: skip
RULES = Variable(
    f"{PREFIX}RULES", "The rules file that selects algorithms", file,
    "the price decides",
)  # fmt: skip
SILENCE = Variable(
    f"{PREFIX}SILENCE",
    "Seconds without an answer after which an elastic job counts a member as lost",
    duration, "5",
)  # fmt: skip
HOST = Variable(
    f"{PREFIX}HOST",
    "The host name of this process; can split one machine into several hosts",
    default="that of the system",
)
SECRET = Variable(
    f"{PREFIX}SECRET", "The shared secret of the job, as hexadecimal digits",
    hexadecimal, "none; on one host the secret of the user",
)  # fmt: skip
DUMP = Variable(
    f"{PREFIX}DUMP", "The folder for dumps; if set, every failure writes one",
    default="`collalgo-dump`, on SIGUSR1 only",
)  # fmt: skip
CACHE = Variable(
    f"{PREFIX}CACHE",
    "The folder for cached results; `off` keeps the host profile only",
    default="`~/.cache/collalgo`",
)  # fmt: skip
CUDA_AWARE = Variable(
    f"{PREFIX}CUDA_AWARE", "Whether a CUDA-aware engine between hosts takes arrays on "
    "devices; 0 stages them through the host", one_of("0", "1"), "1",
)  # fmt: skip
ONE_KERNEL = Variable(
    f"{PREFIX}ONE_KERNEL",
    "The largest buffer of a call on a device that runs as one kernel, in bytes; "
    "0 for none",
    nbytes, "4194304",
)  # fmt: skip
RSH = Variable(
    f"{PREFIX}RSH", "The remote shell to use instead of ssh", command,
    "`ssh`",
)  # fmt: skip
STORE = Variable(
    f"{PREFIX}STORE", "The address of the store of the job, from the launcher", address,
    internal=True,
)  # fmt: skip
JOB = Variable(f"{PREFIX}JOB", "The job, from the launcher", internal=True)
RENDEZVOUS = Variable(
    f"{PREFIX}RENDEZVOUS",
    "The rendezvous URL of an elastic job, from the launcher",
    internal=True,
)
MEMBERS = Variable(
    f"{PREFIX}MEMBERS",
    "The minimum and maximum number of members of an elastic job, as 2:4, from the "
    "launcher",
    span,
    internal=True,
)
MEMBER = Variable(
    f"{PREFIX}MEMBER", "The name of this member, from the launcher", internal=True
)
ERRORS = Variable(
    f"{PREFIX}ERRORS",
    "The file in which a rank records its error, from the launcher",
    internal=True,
)
PRELOAD = Variable(
    f"{PREFIX}PRELOAD",
    "The collectives that `collalgo run --preload` takes, as `allreduce,barrier`",
    names, "all that it can",
)  # fmt: skip
PRELOAD_REPORT = Variable(
    f"{PREFIX}PRELOAD_REPORT",
    "Whether each rank of `collalgo run --preload` writes at its end which calls were "
    "taken",
    one_of("0", "1"), "0",
)  # fmt: skip
PRELOAD_LIBRARY = Variable(
    f"{PREFIX}PRELOAD_LIBRARY", "The library of Python, from --preload", internal=True
)
PRELOAD_PYTHON = Variable(
    f"{PREFIX}PRELOAD_PYTHON", "The Python of the launcher, from --preload",
    internal=True,
)  # fmt: skip
RANK_PROCESS = Variable(
    f"{PREFIX}RANK_PROCESS", "The rank that has started this process", internal=True
)

#: All of them but those that :func:`algorithm` gives.
VARIABLES = (
    TIMEOUT, ENGINE, UCX, INTERFACES, TOPOLOGY, RULES, SILENCE, HOST, SECRET, DUMP,
    CACHE, CUDA_AWARE,
    ONE_KERNEL, RSH, PRELOAD, PRELOAD_REPORT, PRELOAD_LIBRARY, PRELOAD_PYTHON,
    STORE, JOB, RENDEZVOUS, MEMBERS, MEMBER, ERRORS, RANK_PROCESS,
)  # fmt: skip


@cache
def algorithm(collective: str) -> Variable:
    """The variable that names the algorithm of a collective."""
    return Variable(
        f"{PREFIX}{collective.upper()}", f"The algorithm of {collective}",
        default="the price decides",
    )  # fmt: skip


def check(collectives: Iterable[str]) -> None:
    """Check all variables that are set, but those of the first rank only.

    Parameters
    ----------
    collectives
        The names of the collectives, each of which has a variable.

    Raises
    ------
    VariableError
        If one has a wrong value.
    """
    for variable in known(collectives):
        if not variable.of_first_rank:
            variable.value()


def warn_unknown(collectives: Iterable[str]) -> None:
    """Warn of variables of our prefix that have no meaning, once each."""
    expected = [variable.name for variable in known(collectives)]
    for name in sorted(os.environ):
        if name.startswith(PREFIX) and name not in expected and name not in _warned:
            _warned.add(name)
            words = [each.removeprefix(PREFIX) for each in expected]
            from difflib import get_close_matches

            near = get_close_matches(name.removeprefix(PREFIX), words, 1)
            advice = f"did you mean {PREFIX}{near[0]}?" if near else "unset it"
            message = f"the environment variable {name} is unknown; {advice}"
            warn(message, RuntimeWarning, stacklevel=3)


def warn_of_topology(hosts: Sequence[int]) -> None:
    """Warn that the topology of the user has no effect on ranks of one host.

    Parameters
    ----------
    hosts
        The number of the host of each rank.
    """
    if TOPOLOGY.given() and 1 == len(set(hosts)) < len(hosts):
        message = (
            f"the environment variable {TOPOLOGY.name} has no effect on one host, "
            "whose measured profile prices the calls; unset it, or call "
            "comm.replan(Topology.read(path)) to price them on a topology"
        )
        warn(message, RuntimeWarning, stacklevel=3)


_warned: set[str] = set()


def known(collectives: Iterable[str]) -> Iterator[Variable]:
    """All variables, with those for the algorithms of some collectives."""
    yield from VARIABLES
    yield from map(algorithm, collectives)
