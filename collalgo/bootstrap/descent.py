"""Processes that ranks start: they inherit the variables of a rank, and are none."""

import os

from collalgo.bootstrap.ancestors import depth, start_time
from collalgo.bootstrap.identity import launcher_of
from collalgo.errors import BootstrapError

#: Rank, size, process id and start time of the rank that this process is, or that has
#: started it.
VARIABLE = "COLLALGO_RANK_PROCESS"


def mark_rank(rank: int, size: int) -> None:
    """Let the children of this process know that it is a rank."""
    process = os.getpid()
    os.environ[VARIABLE] = f"{rank}/{size}/{process}/{start_time(process)}"


def refuse_child() -> None:
    """Refuse to join from a child of a rank, which would wait for its parent's place.

    A launcher between the two starts ranks of its own.

    Raises
    ------
    BootstrapError
        If the parent, or one of its parents, is a rank.
    """
    launcher = launcher_of(os.environ)
    parts = os.environ.get(VARIABLE, "").split("/")
    if launcher is None or len(parts) != 4 or not parts[2].isdecimal():
        return
    rank, size, process, started = parts
    if int(process) == os.getpid() or start_time(int(process)) != started:
        return
    if depth([VARIABLE], os.environ) < launcher.depth(os.environ):
        raise BootstrapError(
            f"this process was started by rank {rank} of {size} (process {process}) "
            "and is no rank itself; start ranks by collalgo.spawn or a launcher, or a "
            f"process that is alone without {launcher.rank} in its environment"
        )
