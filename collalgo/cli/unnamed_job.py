"""The job of a command that names none: only one that was started in this folder."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import click

from collalgo.base import proc
from collalgo.base.environment import JOB, RENDEZVOUS
from collalgo.base.proc import ancestors
from collalgo.bootstrap.identity import LAUNCHERS
from collalgo.launch.process import command_line

#: The variables that a launcher sets for its ranks; it begins without them itself.
OF_RANKS = (JOB.name, RENDEZVOUS.name, *(launcher.rank for launcher in LAUNCHERS))


def choose(jobs: Mapping[int, str]) -> int:
    """Choose and show the only job that was started in this folder.

    Parameters
    ----------
    jobs
        The jobs on this host, each by a process of one of its ranks, with words that
        identify it further.

    Raises
    ------
    ClickException
        If not exactly one was started in this folder.
    """
    here = Path.cwd()
    folders = {process: list(_folders(process)) for process in jobs}
    of_here = [process for process in jobs if here in folders[process]]
    if len(of_here) == 1:
        click.echo(_line(of_here[0], f"in {here}"), err=True)
        return of_here[0]
    listed = of_here or list(jobs)
    lines = (
        f"  {_line(process, _where(folders[process], jobs[process]))}"
        for process in listed
    )
    why = _why(listed[0], len(jobs), len(of_here))
    raise click.ClickException("\n".join([why, *lines]))


def _why(example: int, jobs: int, of_here: int) -> str:
    """The reason why a job must be named, and how."""
    if jobs == 1:
        why = "the only job on this host was not started in this folder; if you mean it"
        return f"{why}, pass its process id, {example}:"
    which = f"{of_here} of them were" if of_here else "none of them was"
    return (
        f"there are {jobs} jobs on this host, and {which} started in this folder; "
        f"name one by its process id, as PID {example}:"
    )


def _line(process: int, where: str) -> str:
    return f"process {process}: {command_line(process)} ({where})"


def _where(folders: Sequence[Path], words: str) -> str:
    where = f"in {', '.join(map(str, folders))}"
    return f"{where}; {words}" if words else where


def _folders(process: int) -> Iterator[Path]:
    """The working folders of a rank and of its launcher, without repetition."""
    found: dict[Path, None] = {}
    with suppress(OSError):
        own = _variables(process)
        for each in ancestors(process):
            found[Path(f"/proc/{each}/cwd").readlink()] = None
            if _variables(each) != own:
                break
    yield from found


def _variables(process: int) -> list[str | None]:
    """The variables of a rank."""
    known = proc.environment(process)
    return [known.get(name) for name in OF_RANKS]
