"""The hosts that a batch system has given to this job."""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from collalgo.base.hostlist import expand
from collalgo.bootstrap.launcher_variables import MOST_RANKS
from collalgo.errors import BootstrapError, TopologyError
from collalgo.launch.hosts import Host, checked_host, text_of

#: A list of names of Slurm, as ``a[1-3,07],b``.
NODES = re.compile(r"(?:[^,\[\]]+(?:\[[0-9,-]+\][^,\[\]]*)?(?:,|$))*")

#: Tasks of nodes of Slurm, as ``4(x2),1``.
TASKS = re.compile(r"(\d{1,6})(?:\(x(\d{1,6})\))?(?:,|$)")


class Allocation(NamedTuple):
    """Hosts of a job of a batch system.

    Attributes
    ----------
    system : str
        Its name.
    source : str
        The variable that names the hosts.
    hosts : list of Host
        The hosts with their slots.
    """

    system: str
    source: str
    hosts: list[Host]


def allocation(environment: Mapping[str, str] | None = None) -> Allocation | None:
    """The hosts of the job of a batch system, if this process is in one.

    Raises
    ------
    BootstrapError
        If a variable, or the file that it names, is not a list of hosts.
    """
    env = os.environ if environment is None else environment
    for system, source, read in SOURCES:
        if env.get(source):
            return Allocation(system, source, list(read(env, source)))
    return None


def _from_lines(env: Mapping[str, str], source: str) -> Iterator[Host]:
    """A file with a line for each slot, as of PBS and LSF."""
    words = (line.split() for line in _lines(env, source))
    return _counted([line[0] for line in words if line], source)


def _lines(env: Mapping[str, str], source: str) -> list[str]:
    """The lines of a file, with the name of its variable in an error."""
    try:
        return text_of(Path(env[source])).splitlines()
    except BootstrapError as error:
        raise BootstrapError(f"{source}: {error}") from None


def _from_pairs(env: Mapping[str, str], source: str) -> Iterator[Host]:
    """Names and slots alternately, as ``a 4 b 4`` of LSF."""
    words = env[source].split()
    if len(words) % 2:
        raise BootstrapError(f"{source} has no number of slots after {words[-1]!r}")
    for name, slots in zip(words[::2], words[1::2], strict=True):
        yield checked_host(name, slots, source)


def _from_words(env: Mapping[str, str], source: str) -> Iterator[Host]:
    """A word for each slot, as ``a a b b`` of LSF."""
    return _counted(env[source].split(), source)


def _from_grid_engine(env: Mapping[str, str], source: str) -> Iterator[Host]:
    """Lines with name, slots, queue and processors."""
    for number, line in enumerate(_lines(env, source), 1):
        words = line.split()
        if words:
            slots = words[1] if len(words) > 1 else "missing"
            yield checked_host(words[0], slots, f"{env[source]}, line {number}")


def _from_slurm(env: Mapping[str, str], source: str) -> Iterator[Host]:
    """Names in brackets, and the tasks of each node."""
    names = node_names(env[source], source)
    # Tasks are known if their number was given to Slurm, the cores of nodes always.
    variables = ("SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE")
    of_nodes = next((name for name in variables if env.get(name)), "")
    tasks = env.get(of_nodes, f"1(x{len(names)})")
    counts = task_counts(tasks, of_nodes)
    if len(counts) != len(names):
        raise BootstrapError(
            f"{source} names {len(names)} nodes, but {tasks!r:.60} has the tasks of "
            f"{len(counts)}"
        )
    for name, count in zip(names, counts, strict=True):
        yield checked_host(name, str(count), source)


#: The systems, the variables that name their hosts, and how these are read.
SOURCES: Sequence[
    tuple[str, str, Callable[[Mapping[str, str], str], Iterator[Host]]]
] = (
    ("Slurm", "SLURM_JOB_NODELIST", _from_slurm),
    ("LSF", "LSB_DJOB_HOSTFILE", _from_lines),
    ("LSF", "LSB_MCPU_HOSTS", _from_pairs),
    ("LSF", "LSB_HOSTS", _from_words),
    ("PBS", "PBS_NODEFILE", _from_lines),
    ("Grid Engine", "PE_HOSTFILE", _from_grid_engine),
)


def _counted(names: Sequence[str], where: str) -> Iterator[Host]:
    """The hosts of a list with a name for each slot."""
    for name, slots in Counter(names).items():
        yield checked_host(name, str(slots), where)


def node_names(text: str, source: str) -> list[str]:
    """The names of ``a[1-3,07],b``, as Slurm writes them."""
    if NODES.fullmatch(text) is None:
        raise BootstrapError(f"{source} is not a list of nodes: {text[:60]!r}")
    try:
        return expand(text)
    except TopologyError as error:
        raise BootstrapError(f"{source} is not a list of nodes: {error}") from None


def task_counts(text: str, source: str) -> list[int]:
    """The numbers of ``4(x2),1``, as Slurm writes the tasks of nodes.

    Raises
    ------
    BootstrapError
        If they are malformed, or too many.
    """
    counts: list[int] = []
    end = 0
    while end < len(text):
        match = TASKS.match(text, end)
        times = int(match[2] or 1) if match else 0
        if match is None or len(counts) + times > MOST_RANKS:
            raise BootstrapError(
                f"{source}={text[:60]!r} is not a list of tasks per node, as 4(x2),1"
            )
        counts += [int(match[1])] * times
        end = match.end()
    return counts
