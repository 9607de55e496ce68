"""How long a rank looks for messages before it lets others run, and then sleeps."""

import os
from contextlib import suppress
from pathlib import Path

#: Turns of looking again at once: about 50 microseconds, more than a step takes.
SPINS = 2000

#: Turns of yielding the core before sleeping; waking a sleeper takes 30 microseconds.
YIELDS = 100

#: Spins and yields where ranks share cores: who spins keeps the other from running.
SHARING = (0, YIELDS)


def cores() -> int:
    """How many cores this process may use, by its affinity and its cgroup."""
    count = len(os.sched_getaffinity(0))
    with suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        count = min(count, max(1, round(int(quota) / int(period))))
    return count


def patience(size: int) -> tuple[int, int]:
    """Spins and yields for ``size`` ranks on the cores that there are."""
    return (SPINS, YIELDS) if size <= cores() else SHARING
