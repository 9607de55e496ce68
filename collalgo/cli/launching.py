"""The options of commands that start ranks."""

import shlex
from collections.abc import Callable
from functools import reduce, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from collalgo.cli.folder import Folder
from collalgo.launch.binding import Binding
from collalgo.launch.environment import DIALECTS, TORCH
from collalgo.launch.options import RESTARTS, START_SECONDS, Launcher, SshOptions

Command = TypeVar("Command", bound=Callable[..., Any])


def _names(_context: object, _parameter: object, text: str | None) -> tuple[str, ...]:
    """The names of a list with commas."""
    names = tuple(name.strip() for name in (text or "").split(",") if name.strip())
    for name in names:
        if name.startswith("-") or len(name) > 15 or "/" in name or " " in name:
            raise click.BadParameter(f"{name[:30]!r} is not an interface's name")
    return names


def _range(
    _context: object, _parameter: object, text: str | None
) -> tuple[int, int] | None:
    """A number, or a least and a most."""
    if text is None:
        return None
    least, _, most = text.partition(":")
    try:
        found = int(least), int(most or least)
    except ValueError:
        raise click.BadParameter(
            f"{text[:30]!r} is not a range; write 4 or 1:4"
        ) from None
    if not 1 <= found[0] <= found[1]:
        raise click.BadParameter(f"{text[:30]!r}: need 1 <= MIN <= MAX")
    return found


def _words(_context: object, _parameter: object, text: str | None) -> list[str]:
    """The words of a part of a command line."""
    try:
        return shlex.split(text or "")
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _ssh(command: Command) -> Command:
    """Gather the options of ssh."""

    @wraps(command)
    def with_ssh(
        ssh_port: int | None,
        ssh_identity: Path | None,
        ssh_option: tuple[str, ...],
        **given: Any,
    ) -> Any:
        ssh = SshOptions(ssh_port, ssh_identity, ssh_option)
        return command(ssh=ssh, **given)

    return with_ssh  # type: ignore[return-value]


#: The options of the remote shell, for each command that connects to hosts.
_REACHING = (
    click.option(
        "-p", "--ssh-port", type=click.IntRange(1, 65535), help="Port of ssh."
    ),
    click.option(
        "-i",
        "--ssh-identity",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with the private key for ssh.",
    ),
    click.option(
        "--ssh-option",
        multiple=True,
        metavar="KEY=VALUE",
        help="Option of ssh, as StrictHostKeyChecking=accept-new; repeatable.",
    ),
    click.option(
        "--start-timeout",
        type=float,
        default=START_SECONDS,
        help="Seconds within which all hosts must start.",
    ),
    click.option(
        "--interfaces",
        callback=_names,
        show_default="those that work",
        help="Interfaces between hosts, as eth0,ib0; not used on one host.",
    ),
)

_STARTING = (
    click.option(
        "-n",
        "--ranks",
        "size",
        type=click.IntRange(1),
        show_default="one for each slot of the hosts",
        help="Number of ranks.",
    ),
    click.option(
        "-H",
        "hosts",
        show_default="this host",
        help="Hosts and their slots, as a:4,b:4.",
    ),
    click.option(
        "--hostfile",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File of hosts, one per line: a slots=4",
    ),
    click.option(
        "--log-dir",
        "logs",
        type=Folder(file_okay=False, path_type=Path),
        help="Folder for the output of each rank: append to rank.0/stdout, "
        "rank.0/stderr and so on.",
    ),
    click.option(
        "--mpi",
        "delegates",
        is_flag=True,
        help="Start the ranks by the installed mpiexec, or by srun or jsrun in a job "
        "of Slurm or LSF.",
    ),
    click.option(
        "--launcher",
        type=click.Choice([each.value for each in Launcher]),
        default=Launcher.AUTO.value,
        callback=lambda _context, _parameter, name: Launcher(name),
        help="Program that starts the ranks.",
    ),
    click.option(
        "--mpi-args",
        "launcher_words",
        callback=_words,
        help="Further options for mpiexec, srun or jsrun, in quotes.",
    ),
    click.option(
        "--env",
        "dialect",
        type=click.Choice(list(DIALECTS)),
        default=TORCH,
        help="Environment variables of each rank; horovod adds HOROVOD_RANK and so on.",
    ),
    click.option(
        "--bind-to",
        "binding",
        type=click.Choice([each.value for each in Binding]),
        default=Binding.NONE.value,
        callback=lambda _context, _parameter, name: Binding(name),
        help="Bind each rank to its share of the cores, or to a NUMA node.",
    ),
    click.option(
        "--min",
        "least",
        type=click.IntRange(1),
        help="Minimum number of ranks of an elastic job: survivors continue, and dead "
        "ranks are restarted; for programs that use collalgo.elastic.",
    ),
    click.option(
        "--max-restarts",
        "restarts",
        type=click.IntRange(0),
        show_default=f"{RESTARTS} with --min, else 0",
        help="Maximum number of restarts of each rank.",
    ),
    click.option(
        "--elastic",
        is_flag=True,
        help="Run the ranks of this node in a job that nodes may join and leave; run "
        "the command on each node, or pass --discover.",
    ),
    click.option(
        "--nodes",
        metavar="MIN:MAX",
        callback=_range,
        help="Minimum and maximum number of nodes of an elastic job.",
    ),
    click.option(
        "--per-node",
        type=click.IntRange(1),
        show_default="1",
        help="Number of ranks on each node of an elastic job.",
    ),
    click.option(
        "--rendezvous",
        metavar="URL",
        help="Store of an elastic job: etcd://HOST:PORT, HOST:PORT of one node, "
        "replicated://HOST:PORT,HOST:PORT,HOST:PORT of three nodes, or file:///FOLDER "
        "on a shared file system.",
    ),
    click.option(
        "--discover",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Script that prints the hosts of an elastic job, one per line, as a:4; "
        "hosts are added and removed when its output changes.",
    ),
    click.option("--id", "job", default="job", help="Id of an elastic job."),
    click.option(
        "--timestamp", is_flag=True, help="Prefix each line of output with the time."
    ),
    click.option("--verbose", is_flag=True, help="Print how the ranks are started."),
)


def reaching_options(command: Command) -> Command:
    """Add the options of the remote shell; ``ssh`` holds those of ssh."""
    gathered = _ssh(command)
    return reduce(lambda inner, option: option(inner), reversed(_REACHING), gathered)


def launch_options(command: Command) -> Command:
    """Add the options of a job, named as the fields of ``LaunchOptions``."""
    inner = reaching_options(command)
    return reduce(lambda inner, option: option(inner), reversed(_STARTING), inner)
