"""The processes of ranks on this host, as the kernel shows them, to make them dump."""

import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from collalgo.base import proc
from collalgo.base.environment import DUMP, JOB
from collalgo.base.proc import ancestors
from collalgo.base.signal_handlers import catches
from collalgo.bootstrap.identity import Launcher, launcher_of
from collalgo.comm.tracing.dump import DEFAULT_FOLDER
from collalgo.errors import BootstrapError
from collalgo.launch.process import processes

#: Seconds that ranks have to write their dumps.
DUMP_SECONDS = 10.0

#: The coarseness of the times of files, in nanoseconds.
CLOCK = 20_000_000

#: The file of compiled code by which a process of collalgo is recognised.
CODE = b"/_kernels/comm/recorder."

#: That by which an MPI program in C is recognised that has loaded our library.
CODE_OF_PRELOAD = b"/_kernels/integrations/mpi_calls."


class RankProcess(NamedTuple):
    """The process of a rank.

    Attributes
    ----------
    process : int
        Its number.
    rank : str
        Its rank, as its launcher has set it.
    job : str
        The identity of its job: the name that ``collalgo run`` has given it, or
        the number of its parent.
    folder : Path
        The folder of its dumps.
    dumps : bool
        Whether it dumps its calls at SIGUSR1, as programs in C do not.
    """

    process: int
    rank: str
    job: str
    folder: Path
    dumps: bool = True


def rank_processes(ancestor: int | None = None) -> list[RankProcess]:
    """The ranks on this host, in order.

    Parameters
    ----------
    ancestor
        Only of the jobs of this process and those that it has started, directly or not.
    """
    parents = {each.number: each.parent for each in processes()}
    found = {
        process: rank
        for process in parents
        if (rank := _rank_of(process, parents[process]))
    }
    jobs = {
        rank.job
        for process, rank in found.items()
        if ancestor is None or ancestor in ancestors(process)
    }
    own = [
        rank
        for rank in found.values()
        if rank.job in jobs and parents[rank.process] not in found
    ]
    return sorted(own, key=lambda each: (each.job, len(each.rank), each.rank))


def _launcher(environment: Mapping[str, str]) -> Launcher | None:
    """The launcher that has set some variables, or None if they are no rank's."""
    try:
        return launcher_of(environment, by_depth=False)
    except BootstrapError:  # the process could not join, either
        return None


def _rank_of(process: int, parent: int) -> RankProcess | None:
    """The rank that a process is, or None."""
    folder = Path(f"/proc/{process}")
    try:
        code = (folder / "maps").read_bytes()
        dumps = CODE_OF_PRELOAD not in code
        if CODE not in code or (dumps and not catches(process, signal.SIGUSR1)):
            return None
        known = proc.environment(process)
        working = (folder / "cwd").readlink()
    except OSError:
        return None
    launcher = _launcher(known)
    if launcher is None:
        return None
    target = working / (known.get(DUMP.name) or DEFAULT_FOLDER)
    job = known.get(JOB.name) or str(parent)
    return RankProcess(process, launcher.numbers(known)[0], job, target, dumps)


def dump_ranks(ranks: Sequence[RankProcess]) -> dict[RankProcess, Path | None]:
    """Make ranks dump their calls, and wait for the files: None where none comes.

    Ranks that dump nothing get no signal, which would end a ``sleep`` of theirs.
    """
    begun = time.time_ns()
    asked = [rank for rank in ranks if rank.dumps]
    for rank in asked:
        with suppress(OSError):  # it has ended
            os.kill(rank.process, signal.SIGUSR1)
    found: dict[RankProcess, Path | None] = dict.fromkeys(ranks)
    deadline = time.monotonic() + DUMP_SECONDS
    while any(not found[rank] for rank in asked) and time.monotonic() < deadline:
        for rank in asked:
            found[rank] = found[rank] or _file_of(rank, begun)
        time.sleep(0.02)
    return found


def _file_of(rank: RankProcess, since: int) -> Path | None:
    """The dump that a rank has written since a time, or None."""
    for path in rank.folder.glob(f"rank*-{rank.process}.json"):
        with suppress(OSError):
            if path.stat().st_mtime_ns >= since - CLOCK:
                return path
    return None
