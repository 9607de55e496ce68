"""The job of a command that names none: only one that was started in this folder."""

from collections.abc import Iterator
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


def show(process: int) -> None:
    """Show the only job of this host, by one of its ranks.

    Raises
    ------
    ClickException
        If it was not started in this folder.
    """
    folders = list(_folders(process))
    words = f"process {process}: {command_line(process)}"
    here = Path.cwd()
    if here in folders:
        click.echo(f"{words} (in {here})", err=True)
        return
    raise click.ClickException(
        "the only job on this host was not started in this folder; if you mean it, "
        f"pass its process id, {process}:\n"
        f"  {words} (in {', '.join(map(str, folders))})"
    )


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
