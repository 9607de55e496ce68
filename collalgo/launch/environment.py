"""The environment of ranks: their identity, shared settings, and limits."""

import os
import socket
from collections.abc import Sequence
from dataclasses import asdict

from collalgo.base.environment import INTERFACES, JOB, VARIABLES
from collalgo.bootstrap.interfaces import rdma_devices
from collalgo.bootstrap.launcher_variables import (
    OF_HOST_PREFIXES,
    RESTART_COUNT,
    is_of_mpi,
)
from collalgo.engine.transport.waiting import cores
from collalgo.launch.hosts import RankPosition

#: The devices and interfaces that UCX may use.
UCX_DEVICES = "UCX_NET_DEVICES"

#: Variables of a machine or a session, which other hosts do not get.
NOT_FORWARDED = ("HOSTNAME", "DISPLAY", "TMPDIR", "PWD", "OLDPWD", "HOME", "USER",
                 "SHELL", "LOGNAME", "TERM", "SHLVL", "_")  # fmt: skip
NOT_FORWARDED_PREFIXES = ("SSH_", "XDG_", "DBUS_", *OF_HOST_PREFIXES)

#: What the library, or torchrun, has set for this process, if it is itself a rank.
OF_A_RANK = {RESTART_COUNT, *(each.name for each in VARIABLES if each.internal)}

#: The variables of a rank, whatever starts it, each with the field of its position:
#: those of torchrun, and ``LOCAL_SIZE`` and ``CROSS_*``, for which it has none.
OF_RANK = {
    "RANK": "rank",
    "WORLD_SIZE": "size",
    "LOCAL_RANK": "local_rank",
    "LOCAL_WORLD_SIZE": "local_size",
    "LOCAL_SIZE": "local_size",
    "CROSS_RANK": "cross_rank",
    "CROSS_SIZE": "cross_size",
}

#: The same by the names of horovodrun.
OF_HOROVOD = {
    f"HOROVOD_{field.upper()}": field for field in dict.fromkeys(OF_RANK.values())
}

#: The variables of a rank for each value of ``--env``.
TORCH, HOROVOD = "torch", "horovod"
DIALECTS = {TORCH: OF_RANK, HOROVOD: OF_RANK | OF_HOROVOD}


def is_of_a_rank(name: str) -> bool:
    """Whether a variable belongs to the job that this process may be a rank of.

    An MPI in the ranks of a new job would take the connection of this process to its
    launcher for theirs.
    """
    return name in OF_A_RANK or is_of_mpi(name)


def inherited() -> dict[str, str]:
    """The variables of this process that ranks of a new job on this host get too."""
    return {name: value for name, value in os.environ.items() if not is_of_a_rank(name)}


def forwarded() -> dict[str, str]:
    """The variables of this process that ranks on other hosts get too."""
    return {
        name: value
        for name, value in inherited().items()
        if name not in NOT_FORWARDED and not name.startswith(NOT_FORWARDED_PREFIXES)
    }


def of_job(address: str, port: int | str) -> dict[str, str]:
    """The variables that all ranks of a job share.

    ``MASTER_ADDR`` and ``MASTER_PORT`` are for other libraries.
    """
    return {
        **of_any_job(),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
    }


def of_any_job() -> dict[str, str]:
    """The variables of a job, also of an elastic one."""
    return {JOB.name: os.urandom(16).hex(), "PYTHONUNBUFFERED": "1"}


def of_rank(position: RankPosition, dialect: str = TORCH) -> dict[str, str]:
    """The variables of one rank, for the known fields of its position."""
    values = asdict(position)
    return {
        name: str(values[field])
        for name, field in DIALECTS[dialect].items()
        if values[field] is not None
    }


def of_nics(
    nics: str, restricted: Sequence[str] = (), share: Sequence[str] = ()
) -> dict[str, str]:
    """The variables that make the libraries of this host use some interfaces.

    Parameters
    ----------
    nics
        Those that the user wants, separated by commas; empty for all.
    restricted
        Those that UCX may use otherwise, besides all devices of RDMA; empty for all.
    share
        Those that UCX uses for this rank, on a host without RDMA; empty if it chooses.
    """
    ports = rdma_devices()
    if not nics:
        devices = list(share) or ([*ports, *restricted] if restricted else [])
        return {UCX_DEVICES: ",".join(devices)} if devices else {}
    names = nics.split(",")
    devices = [port for port, name in ports.items() if name in names]
    return {
        INTERFACES.name: nics,
        UCX_DEVICES: ",".join(share or [*devices, *names]),
        "NCCL_SOCKET_IFNAME": nics,
        "GLOO_SOCKET_IFNAME": nics,
        "FI_TCP_IFACE": names[0],  # libfabric, of MPICH and Intel MPI, takes one
        "FI_SOCKETS_IFACE": names[0],
    }


def thread_limit(ranks: int) -> dict[str, str]:
    """The number of computing threads of each of ``ranks`` ranks of this host.

    By default libraries start one for each core in every rank, and a product of
    matrices takes ten times as long.
    """
    return {"OMP_NUM_THREADS": str(max(1, cores() // ranks))}


def free_port() -> int:
    """A free port of this host, for other libraries; collalgo itself uses none."""
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port
