"""The cores that the ranks of a host are bound to."""

import os
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

from collalgo.base.cpu_list import cores_of
from collalgo.errors import BootstrapError

#: Where Linux shows its cores and NUMA nodes.
SYSTEM = Path("/sys/devices/system")

#: Numbers of hardware threads, as the affinity of a process has them.
Cpus: TypeAlias = frozenset[int]


class Binding(Enum):
    """The unit of cores that a rank is bound to."""

    NONE = "none"
    CORE = "core"
    NUMA = "numa"


def cpus_of_ranks(
    binding: Binding, ranks: int, where: str = "this host"
) -> list[Cpus | None]:
    """The hardware threads of each rank of this host; None: it is not bound.

    By CORE the ranks get equal shares of the cores that this process may use, in their
    order; by NUMA the first ranks get the first node, and so on.

    Raises
    ------
    BootstrapError
        If there are fewer cores than ranks.
    """
    if binding is Binding.NONE:
        return [None] * ranks
    allowed = os.sched_getaffinity(0)
    if binding is Binding.NUMA:
        nodes = _groups("node/node[0-9]*/cpulist", allowed) or [frozenset(allowed)]
        return [nodes[rank * len(nodes) // ranks] for rank in range(ranks)]
    cores = _groups("cpu/cpu[0-9]*/topology/thread_siblings_list", allowed)
    cores = cores or [frozenset({cpu}) for cpu in sorted(allowed)]
    if ranks > len(cores):
        raise BootstrapError(
            f"{ranks} ranks cannot be bound to the {len(cores)} cores of {where}; "
            "start fewer, or pass --bind-to numa or none"
        )
    borders = [rank * len(cores) // ranks for rank in range(ranks + 1)]
    return [frozenset().union(*cores[begin:end]) for begin, end in pairwise(borders)]


def _groups(pattern: str, allowed: set[int]) -> list[Cpus]:
    """The allowed hardware threads in the files of a pattern, in order."""
    lists = (file.read_text() for file in SYSTEM.glob(pattern))
    found = {frozenset(cores_of(text) & allowed) for text in lists} - {frozenset()}
    return sorted(found, key=min)
