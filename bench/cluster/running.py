"""Run a command on the ranks of a cluster, by the mpiexec of an environment."""

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from collalgo.bench.cluster.kernel import (
    ClusterError,
    check_is_up,
    existing,
    inside,
    namespace,
)
from collalgo.bench.cluster.layout import NODE, Layout
from collalgo.bench.cluster.leftovers import guarded_folder, marked

from collalgo.base.environment import TOPOLOGY
from collalgo.launch.mpi_command import INTEL, MPICH, mpiexec_at

#: UCX between hosts: TCP, with segments long enough for full speed.
UCX = {
    "UCX_TLS": "tcp,self",
    "UCX_TCP_TX_SEG_SIZE": "256k",
    "UCX_TCP_RX_SEG_SIZE": "256k",
    "UCX_LOG_LEVEL": "error",
}

#: Each rank uses the interface with its local rank as number, in UCX and in gloo.
TAKE_NIC = (
    "nic=$((${{MPI_LOCALRANKID:-${{OMPI_COMM_WORLD_LOCAL_RANK:-0}}}} % {count})); "
    "export UCX_NET_DEVICES={kind}$nic GLOO_SOCKET_IFNAME={kind}$nic; "
    'exec "$@"'
)


def command_line(
    layout: Layout, command: Sequence[str], agent: Path, bin_: Path, ranks: int
) -> list[str]:
    """The command line that runs ``command`` on the first ``ranks`` ranks."""
    first = layout.hosts[0]
    mpiexec = str(bin_ / "mpiexec")
    options = {MPICH: _hydra, INTEL: _intel}.get(mpiexec_at(mpiexec).vendor, _prrte)
    return inside(
        layout,
        first,
        mpiexec,
        *options(layout, str(agent), ",".join(_filled(layout, ranks))),
        *("-n", str(ranks), "sh", "-c", _take_nic(layout), "rank", *command),
    )


def _filled(layout: Layout, ranks: int) -> Iterator[str]:
    """The hosts for ``ranks`` ranks, each as ``host:ranks``."""
    if ranks > layout.size:
        raise ClusterError(f"{ranks} ranks are more than the {layout.size} cores")
    for host, slots in layout.slots.items():
        if ranks > 0:
            yield f"{host}:{min(slots, ranks)}"
        ranks -= slots


def _take_nic(layout: Layout) -> str:
    """The shell script that selects the NIC of a rank before its command."""
    first = layout.hosts[0]
    if layout.routes:
        return TAKE_NIC.format(count=len(layout.nodes[first]), kind=NODE)
    return TAKE_NIC.format(count=len(layout.interfaces(first)), kind="eth")


def _hydra(layout: Layout, agent: str, hosts: str) -> list[str]:
    """The options of the mpiexec of MPICH."""
    interface = f"{NODE if layout.routes else 'eth'}0"
    return [
        *("-launcher", "ssh", "-launcher-exec", agent),
        *("-iface", interface, "-hosts", hosts),
    ]


def _intel(layout: Layout, agent: str, hosts: str) -> list[str]:
    """The options of the mpiexec of Intel MPI, which takes a host for each rank."""
    counted = (each.rpartition(":") for each in hosts.split(","))
    names = ",".join(name for name, _, count in counted for _ in range(int(count)))
    return [
        *("-bootstrap", "ssh", "-bootstrap-exec", agent, "-ppn", "1"),
        *("-iface", f"{NODE if layout.routes else 'eth'}0", "-hosts", names),
    ]


def _prrte(layout: Layout, agent: str, hosts: str) -> list[str]:
    """The options of the mpiexec of Open MPI."""
    network = "10.255.0.0/16" if layout.routes else "10.1.0.0/16"
    first = "10.255.0.0/24" if layout.routes else "10.1.1.0/24"  # for its daemons
    return [
        *("--allow-run-as-root", "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"),
        *("--prtemca", "plm_ssh_agent", agent, "--prtemca", "prte_if_include", first),
        *("--mca", "btl_tcp_if_include", network, "--host", hosts),
        # Open MPI does not know that all hosts share the cores of one machine.
        *("--mca", "mpi_yield_when_idle", "1"),
    ]


@contextmanager
def agent_of(layout: Layout) -> Iterator[Path]:
    """A replacement for ssh: a script that runs a command line on a host."""
    with guarded_folder() as folder:
        agent = folder / "agent"
        agent.write_text(
            "#!/bin/sh\n"
            'while case "$1" in -*) true;; *) false;; esac; do shift; done\n'
            "host=$1; shift\n"
            f'exec ip netns exec {namespace(layout)}-"$host" unshare --uts '
            'sh -c "hostname $host; $*"\n'
        )
        agent.chmod(0o700)
        yield agent


def variables(
    description: Path | None, environment: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The environment of the ranks, with the topology file of the cluster."""
    found = {**os.environ, **UCX, **(environment or {})}
    if description is not None:
        found[TOPOLOGY.name] = str(description.resolve())
    return found


@contextmanager
def _limit_named(
    layout: Layout, command: Sequence[str], seconds: float | None
) -> Iterator[None]:
    """Name the command that has reached its time limit."""
    try:
        yield
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"the cluster {layout.name}: {shlex.join(command)} was killed at its time "
            f"limit of {seconds:g} s; give it less to do"
        ) from None


def _check_hosts(layout: Layout) -> None:
    """Refuse a cluster that was created before its file got further hosts."""
    there = existing()
    lacking = [host for host in layout.hosts if namespace(layout, host) not in there]
    if lacking:
        raise ClusterError(
            f"the cluster {layout.name} is up without {', '.join(lacking)} of its "
            "file; remove it (collalgo cluster down), and create it again"
        )


def run(
    layout: Layout,
    command: Sequence[str],
    *,
    ranks: int = 0,
    description: Path | None = None,
    prefix: Path | None = None,
    environment: Mapping[str, str] | None = None,
    capture: bool = False,
    timeout: float | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a command on the ranks of a cluster that is up.

    Parameters
    ----------
    layout
        The cluster.
    command
        The command of each rank.
    ranks
        The number of ranks; by default one for each core.
    description
        The topology file of the cluster, for selection.
    prefix
        The environment with the mpiexec to use; by default this one.
    environment
        Additional variables for the ranks.
    capture
        Whether to return the output instead of showing it.
    timeout
        Seconds after which the command is killed.

    Raises
    ------
    ClusterError
        If the cluster is not up, there is no mpiexec, or the time is over.
    """
    check_is_up(layout)
    _check_hosts(layout)
    bin_ = (prefix or Path(sys.prefix)) / "bin"
    if not (bin_ / "mpiexec").exists():
        raise ClusterError(
            f"there is no mpiexec in {bin_}; install one: pip install collalgo[mpi]"
        )
    with agent_of(layout) as agent:
        line = command_line(layout, command, agent, bin_, ranks or layout.size)
        with _limit_named(layout, command, timeout):
            return subprocess.run(
                line,
                env=variables(description, environment) | marked(agent.parent),
                capture_output=capture,
                text=True,
                timeout=timeout,
                check=False,
            )
