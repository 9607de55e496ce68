"""The environment of ranks: the variables of torchrun and Horovod, and limits."""

import os
import socket

from collalgo.engine.transport.waiting import cores
from collalgo.launch.hosts import RankPosition

#: Variables of a machine or a session, which other hosts do not get.
NOT_FORWARDED = ("HOSTNAME", "DISPLAY", "TMPDIR", "PWD", "OLDPWD", "HOME", "USER",
                 "SHELL", "LOGNAME", "TERM", "SHLVL", "_")  # fmt: skip
NOT_FORWARDED_PREFIXES = ("SSH_", "XDG_", "DBUS_", "SLURM_", "PMI_", "OMPI_")


def forwarded() -> dict[str, str]:
    """The variables of this process that ranks on other hosts get too."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in NOT_FORWARDED and not name.startswith(NOT_FORWARDED_PREFIXES)
    }


def of_job(size: int, address: str, port: int | str) -> dict[str, str]:
    """The variables that all ranks of a job share.

    ``MASTER_ADDR`` and ``MASTER_PORT`` are for other libraries.
    """
    return {
        "COLLALGO_JOB": os.urandom(16).hex(),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": address,
        "MASTER_PORT": str(port),
        "PYTHONUNBUFFERED": "1",
    }


def of_rank(position: RankPosition) -> dict[str, str]:
    """The variables of one rank of a job on several hosts."""
    return {
        "RANK": str(position.rank),
        "LOCAL_RANK": str(position.local_rank),
        "LOCAL_WORLD_SIZE": str(position.local_size),
        "CROSS_RANK": str(position.cross_rank),
        "CROSS_SIZE": str(position.cross_size),
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
