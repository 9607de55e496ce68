"""The command ``collalgo doctor``: check the environment for running ranks."""

import importlib.metadata
import os
import platform
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.table import Column, Table

from collalgo._version import __version__
from collalgo.base.console import wide_console
from collalgo.bootstrap.identity import identity
from collalgo.bootstrap.interfaces import address_towards, interfaces
from collalgo.cli.launching import reaching_options
from collalgo.engine.transport.waiting import cores, quota
from collalgo.errors import BootstrapError, CollalgoError
from collalgo.launch.hosts import MAX_SLOTS, Host, parse_hosts
from collalgo.launch.mpi_command import INTEL, mpiexec_at
from collalgo.launch.options import LaunchOptions, OptionError
from collalgo.topology.ranks import host_name

#: Bytes of /dev/shm below which MPI libraries fail; collalgo does not use it.
SMALL_SHM = 1 << 30

#: Descriptors that a job of some hundred ranks may need.
DESCRIPTORS = 1024


class Finding(NamedTuple):
    """A checked property, its value, and advice if it needs a change."""

    what: str
    found: str
    advice: str = ""


def findings(ranks: int | None, host: str | None) -> Iterator[Finding]:
    """The findings of all checks in this process.

    Parameters
    ----------
    ranks
        The number of ranks wanted on this host.
    host
        Another host; the check looks for a route to it.
    """
    yield Finding(
        "collalgo", f"{__version__}, Python {platform.python_version()}, {sys.prefix}"
    )
    yield Finding("host", f"{host_name()}, {platform.platform()}")
    yield _launcher()
    yield _processors(ranks)
    yield _memory()
    yield _descriptors()
    yield _interfaces()
    if host is not None:
        yield _route(host)
    yield _port()
    yield _mpi()
    yield _ucx()
    yield _ssh()


def _launcher() -> Finding:
    try:
        me = identity()
    except BootstrapError as error:
        return Finding("launcher", "", str(error))
    if me.size == 1:
        return Finding("launcher", "none; this process is a world of one")
    return Finding("launcher", f"{me.launcher}: rank {me.rank} of {me.size}")


def _processors(ranks: int | None) -> Finding:
    count = cores()
    granted = quota()
    found = f"{count} of {os.cpu_count()}" + (
        f"; the cgroup grants {granted:g}" if granted < (os.cpu_count() or 1) else ""
    )
    if ranks is not None and ranks > count:
        return Finding(
            "cores", found, f"{ranks} ranks share {count} cores; expect slower calls"
        )
    return Finding("cores", found)


def _memory() -> Finding:
    try:
        os.close(os.memfd_create("collalgo-doctor", os.MFD_CLOEXEC))
    except OSError as error:
        return Finding("shared memory", "", f"no memory files: {error}")
    size = shutil.disk_usage("/dev/shm").total if Path("/dev/shm").is_dir() else 0
    found = f"memory files; /dev/shm has {size >> 20} MiB and is not used"
    if size < SMALL_SHM:
        return Finding("shared memory", found, "an MPI may need more of /dev/shm")
    return Finding("shared memory", found)


def _descriptors() -> Finding:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    advice = f"raise it: ulimit -n {DESCRIPTORS}" if soft < DESCRIPTORS else ""
    return Finding("file descriptors", f"{soft} at most", advice)


def _interfaces() -> Finding:
    found = [each for each in interfaces() if not each.is_loopback]
    if not found:
        return Finding("interfaces", "none but loopback", "other hosts cannot reach it")
    shown = ", ".join(f"{each.name} {each.address}" for each in found)
    return Finding("interfaces", shown)


def _route(host: str) -> Finding:
    from collalgo.launch.remote_shell import remote_shell

    try:
        mine = address_towards(remote_shell().hostname(host))
    except OSError as error:
        return Finding(f"route to {host}", "", f"no route: {error}")
    return Finding(f"route to {host}", f"from {mine}")


def _port() -> Finding:
    try:
        with socket.create_server(("", 0)) as listener:
            port = listener.getsockname()[1]
    except OSError as error:
        return Finding("ports", "", f"none can be opened: {error}")
    return Finding("ports", f"free ports such as {port} are used; no port is fixed")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _mpi() -> Finding:
    mpi4py, mpiexec = _version("mpi4py"), shutil.which("mpiexec")
    if not mpi4py:
        return Finding("MPI", "no mpi4py", "pip install collalgo[mpi]")
    # In a subprocess, since the import initialises MPI.
    seen = _output(
        [sys.executable, "-c", "from mpi4py import MPI; print(*MPI.get_vendor())"]
    )
    if not seen:
        return Finding(
            "MPI", f"mpi4py {mpi4py}", "it finds no MPI library; install one"
        )
    if mpiexec is None:
        advice = f"{seen.split()[0]} has no mpiexec on the PATH"
        return Finding("MPI", f"mpi4py {mpi4py} on {seen}", advice)
    starts = mpiexec_at(mpiexec).vendor
    found = f"mpi4py {mpi4py} on {seen}; {mpiexec}"
    if starts not in seen and not (starts == INTEL and seen.startswith("Intel")):
        advice = f"mpiexec is of {starts}, so each rank would be alone; use one MPI"
        return Finding("MPI", found, advice)
    return Finding("MPI", found)


def _output(command: Sequence[str]) -> str:
    """The standard output of a command; empty if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _ucx() -> Finding:
    from collalgo.engine.transport.ucx import library, version

    try:
        path, functions = library()
    except OSError as error:
        return Finding("UCX", str(error), "pip install collalgo[ucx]")
    return Finding("UCX", f"{version(functions)}, {path}")


def _ssh() -> Finding:
    path = shutil.which("ssh")
    advice = "" if path else "collalgo run -H needs it; install an OpenSSH client"
    return Finding("ssh", path or "none", advice)


@click.command("doctor")
@click.option(
    "-n",
    "--ranks",
    type=click.IntRange(1, MAX_SLOTS),
    help="Number of ranks to run on this host.",
)
@click.option("-H", "hosts", help="Hosts to connect to by ssh, as a:4,b:4.")
@reaching_options
def doctor_command(ranks: int | None, hosts: str | None, **given: Any) -> None:
    """Check cores, memory, network, MPI, UCX and ssh of this host.

    Each finding is printed with advice where a change is needed. With -H, also start an
    agent on each host and test the addresses between them. The exit code is 1 if a host
    of -H cannot be used.
    """
    try:
        named = parse_hosts(hosts) if hosts is not None else []
        options = LaunchOptions((), hosts=named, **given)
        route = named[0].name if named else None
        found = [*findings(ranks, route and route.rpartition("@")[2])]
        of_hosts = list(_hosts(named, options))
    except OptionError as error:
        raise click.UsageError(str(error)) from None
    except CollalgoError as error:
        raise click.ClickException(str(error)) from None
    table = Table("", "found", Column("advice", style="yellow"), box=None)
    for finding in (*found, *of_hosts):
        table.add_row(*finding)
    wide_console().print(table, highlight=False)
    sys.exit(any(finding.advice for finding in of_hosts))


def _hosts(named: Sequence[Host], options: LaunchOptions) -> Iterator[Finding]:
    """The usable hosts, and the addresses by which they reach each other."""
    from collalgo.launch.agents import JobNetwork, try_hosts
    from collalgo.launch.nics import shown
    from collalgo.launch.output import sinks

    problems, network = try_hosts(named, options, sinks())
    shares = network.shares() if isinstance(network, JobNetwork) else {}
    for host in named:
        problem = problems.get(host.name, "")
        found = "" if problem else "can be used"
        if not problem and isinstance(network, JobNetwork):
            found += f"; reached by {network.of_host[host]}"
            nics = shown(shares[host])
            found += f"; its ranks use {nics}" if nics else ""
        yield Finding(f"host {host.name}", found, problem)
    if isinstance(network, JobNetwork):
        yield Finding("launcher", f"reached at {', '.join(network.launcher)}")
    elif network is not None:
        yield Finding("network", "", str(network))
