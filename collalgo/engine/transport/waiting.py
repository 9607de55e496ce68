"""How long a rank looks for messages before it lets others run, and then sleeps."""

import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Turns(NamedTuple):
    """How often a rank looks again before it sleeps.

    Attributes
    ----------
    spins
        At once.
    hopes
        For so many ticks of the processor after a call began, or something came, while
        all that it waits for run on other cores.
    yields
        After it has yielded its core; never while other processes keep that busy.
    yields_in_waves
        The same in a call that is so long that it goes in waves.
    """

    spins: int
    hopes: int
    yields: int
    yields_in_waves: int


#: Where each rank has a core: some 5 microseconds of looking again, and 300 of yielding
#: in vain, since waking a sleeper takes 30. Who is waited for longer than a step may
#: have lost its core to another process, and can move to this one once that is free.
ALONE = Turns(spins=200, hopes=0, yields=1000, yields_in_waves=1000)

#: Where ranks share cores. Who spins may keep another from running, so it does only as
#: long as those it waits for run on other cores, for 5 to 10 microseconds: to yield and
#: come back takes 2 or more for each rank on the own core. A thousand yields take one
#: to four milliseconds, and waits of eight ranks on two cores are that long at times.
#: In a long call others have to work for longer than it takes to wake who sleeps; and
#: the kernel lets two of them share a core while two that wait yield another one to
#: each other, but not while these sleep.
SHARING = Turns(spins=0, hopes=20_000, yields=1000, yields_in_waves=10)

#: Where the rank itself has a better use for its core meanwhile.
GIVING_WAY = Turns(spins=0, hopes=0, yields=20, yields_in_waves=20)

#: Where some of the ranks are on other hosts: to ask an engine takes as long as many
#: spins, and what it waits for takes longer.
ACROSS_HOSTS = Turns(spins=100, hopes=0, yields=120, yields_in_waves=120)

#: Where the kernel says how much of the processors a group of processes may use.
CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def cores(processes: Iterable[int] = ()) -> int:
    """How many cores this process and others may use, by affinity and by cgroup.

    Launchers like to bind each rank to a core of its own: what counts is all of them.
    """
    allowed = os.sched_getaffinity(0)
    for process in processes:
        with suppress(OSError):
            allowed |= os.sched_getaffinity(process)
    return min(len(allowed), max(1, round(quota())))


def quota() -> float:
    """The processors that the cgroups of this process grant it; infinite if all."""
    least = math.inf
    with suppress(OSError):
        for line in OWN_CGROUPS.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            path = CGROUPS / ("cpu" if controllers else "") / name.lstrip("/")
            for folder in (path, *path.parents):
                if folder.is_relative_to(CGROUPS):
                    least = min(least, _granted(folder))
    return min(least, sys.maxsize)


def _granted(folder: Path) -> float:
    """What one cgroup grants, by either version of the interface."""
    with suppress(OSError, ValueError):
        limit, period = (folder / "cpu.max").read_text().split()
        return int(limit) / int(period)
    with suppress(OSError, ValueError):
        limit = (folder / "cpu.cfs_quota_us").read_text()
        if int(limit) > 0:
            return int(limit) / int((folder / "cpu.cfs_period_us").read_text())
    return math.inf


def patience(size: int, available: int | None = None) -> Turns:
    """How long ``size`` ranks wait on the cores that there are."""
    return ALONE if size <= (available or cores()) else SHARING
