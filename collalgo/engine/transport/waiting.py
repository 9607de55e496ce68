"""Wait policies: the polls of a rank before it yields its core, and then sleeps."""

import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class WaitPolicy(NamedTuple):
    """The number of polls of a rank before it sleeps.

    Attributes
    ----------
    spins
        Polls without a yield in between; none tells that ranks share cores.
    spin_ticks
        Ticks of the processor after the begin of a call or the last message in which it
        spins, while all ranks that it waits for run on other cores.
    yields
        Polls after a yield of its core; none while other processes keep the core busy.
    """

    spins: int
    spin_ticks: int
    yields: int


#: Each rank has a core: it spins for about 5 microseconds and yields for 100, as waking
#: a sleeper takes 30. A rank that is waited for longer may have lost its core to
#: another process, and can move to this core once this rank sleeps.
ALONE = WaitPolicy(spins=200, spin_ticks=0, yields=300)

#: Ranks share cores. A rank that spins may keep another from running, so it spins only
#: while all ranks that it waits for run on other cores, for 5 to 10 microseconds: a
#: yield takes 2 or more for each rank on the core. Thirty yields give every rank on the
#: core thirty turns, more than a short call needs. Linux charges a yield as a whole
#: time slice: beside the ranks, a process that computes gets a millisecond for each
#: yield, and a rank waits for its core when its message comes. A sleeper gets the core
#: at once.
SHARING = WaitPolicy(spins=0, spin_ticks=20_000, yields=30)

#: Another thread of the process needs the core.
BACKGROUND = WaitPolicy(spins=0, spin_ticks=0, yields=20)

#: Some ranks are on other hosts: a poll of the engine takes as long as many spins, and
#: messages take longer, so it hardly spins. It yields on after these while it can.
ACROSS_HOSTS = WaitPolicy(spins=1, spin_ticks=0, yields=120)


class Waits(NamedTuple):
    """How the ranks of a world wait.

    Attributes
    ----------
    usual
        The policy of most waits.
    background
        That of waits while the process needs the core for another thread.
    lacks_cores
        Whether the ranks use all cores.
    """

    usual: WaitPolicy
    background: WaitPolicy
    lacks_cores: bool = False


#: The files of the kernel with the processor quotas of cgroups.
CGROUPS = "/sys/fs/cgroup"
OWN_CGROUPS = "/proc/self/cgroup"


def cores(processes: Iterable[int] = ()) -> int:
    """The number of cores that this process and others may use, by affinity and cgroup.

    A launcher may bind each rank to a core of its own, so the union of all counts.
    """
    return usable(affinity(0).union(*map(affinity, processes)), quota())


def affinity(process: int) -> set[int]:
    """The cores that a process may use; none if it has ended."""
    with suppress(OSError):
        return os.sched_getaffinity(process)
    return set()


def usable(allowed: set[int], granted: float) -> int:
    """The number of these cores that can be busy at once under a quota."""
    return max(1, min(len(allowed), round(granted)))


def quota() -> float:
    """The processor quota of the cgroups of this process; infinite without a limit."""
    least = math.inf
    with suppress(OSError):
        for line in Path(OWN_CGROUPS).read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            folder = f"{CGROUPS}{'/cpu' if controllers else ''}/{name.strip('/')}"
            while folder.startswith(CGROUPS):
                least = min(least, _granted(folder.rstrip("/")))
                folder = folder.rpartition("/")[0]
    return min(least, sys.maxsize)


def _granted(folder: str) -> float:
    """The processor quota of one cgroup, by either version of the interface."""
    with suppress(OSError, ValueError):
        limit, period = Path(f"{folder}/cpu.max").read_text().split()
        return int(limit) / int(period)
    with suppress(OSError, ValueError):
        limit = Path(f"{folder}/cpu.cfs_quota_us").read_text()
        if int(limit) > 0:
            return int(limit) / int(Path(f"{folder}/cpu.cfs_period_us").read_text())
    return math.inf


def patience(size: int, available: int | None = None) -> WaitPolicy:
    """The wait policy of ``size`` ranks on the available cores."""
    return ALONE if size <= (available or cores()) else SHARING


def waits(size: int, available: int | None = None, *, across: bool = False) -> Waits:
    """How ``size`` ranks of a host wait on the available cores, or ``across`` hosts."""
    available = available or cores()
    usual = ACROSS_HOSTS if across else patience(size, available)
    # In the background, each rank has a second thread besides the one that computes.
    crowded = patience(2 * size, available) == SHARING
    lacks_cores = not across and patience(size + 1, available) == SHARING
    return Waits(usual, BACKGROUND if crowded else usual, lacks_cores)
