"""Processes that ranks start: they inherit variables of a rank but are not ranks."""

import os

from collalgo.base.environment import RANK_PROCESS
from collalgo.bootstrap.ancestors import depth, start_time
from collalgo.bootstrap.identity import launcher_of
from collalgo.errors import BootstrapError

#: The variable with rank, size, process id and start time of the rank that this process
#: is, or that has started it.
VARIABLE = RANK_PROCESS.name


def mark_rank(rank: int, size: int) -> None:
    """Mark this process as a rank for its children."""
    process = os.getpid()
    os.environ[VARIABLE] = f"{rank}/{size}/{process}/{start_time(process)}"


def is_child() -> bool:
    """Whether a rank has started or forked this process, which is not a rank itself."""
    return _parent() is not None


def advice() -> str:
    """The advice for a forked process that is not a rank."""
    if is_child():
        return (
            "leave the calls to the parent, which is a rank, or join another job by "
            "collalgo.init(store=...)"
        )
    return "call collalgo.init() in the child"


def _parent() -> tuple[str, str, str] | None:
    """Rank, size and process of the living rank that has started this process."""
    parts = RANK_PROCESS.given().split("/")
    if len(parts) != 4 or not parts[2].isdecimal():
        return None
    rank, size, process, started = parts
    if int(process) == os.getpid() or start_time(int(process)) != started:
        return None
    return rank, size, process


def refuse_child() -> None:
    """Refuse to join from a child of a rank, which would wait for its parent's place.

    A launcher between the two starts ranks of its own.

    Raises
    ------
    BootstrapError
        If the parent, or one of its parents, is a rank.
    """
    parent = _parent()
    launcher = None if parent is None else launcher_of(os.environ)
    if parent is None or launcher is None:
        return
    rank, size, process = parent
    if depth([VARIABLE], os.environ) < launcher.depth(os.environ):
        raise BootstrapError(
            f"this process was started by rank {rank} of {size} (process {process}) "
            "and is not a rank itself; start ranks by collalgo.spawn or a launcher, or "
            f"unset {launcher.rank} for a process that runs alone"
        )
