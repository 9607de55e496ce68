"""The peer libraries of the benchmarks, and their environments."""

import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from collalgo.selection.peer_rules import mpich, openmpi


@dataclass(frozen=True)
class Peer:
    """A library with some settings.

    Attributes
    ----------
    name : str
        The name in tables.
    environment : str
        The environment in which it is installed.
    packages : tuple of str
        The packages installed there.
    launcher : tuple of str
        The launcher and its options before ``-n``; empty to start each rank directly.
    settings : mapping
        The environment variables of the variant.
    """

    name: str
    environment: str
    packages: tuple[str, ...]
    launcher: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """The kind of calls that the worker makes."""
        return "mpi" if self.launcher else "gloo"


_OPENMPI = ("openmpi", ("mpi4py", "openmpi", "numpy"))
_OPENMPI_RUN = ("mpiexec", "--oversubscribe", "--bind-to", "none")
_MPICH = ("mpich", ("mpi4py", "mpich", "numpy"), ("mpiexec",))
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_RELEASE_GATHER = {
    f"MPIR_CVAR_{name}_POSIX_INTRA_ALGORITHM": "release_gather"
    for name in ("BCAST", "REDUCE", "ALLREDUCE", "BARRIER")
}

#: Every library with its defaults, and with the best settings for one host.
PEERS = (
    Peer("openmpi", *_OPENMPI, _OPENMPI_RUN, _AS_ROOT),
    Peer(
        "openmpi-sm", *_OPENMPI, _OPENMPI_RUN,
        {**_AS_ROOT, "OMPI_MCA_coll_sm_priority": "100"},
    ),
    Peer(
        "openmpi-nocma", *_OPENMPI, _OPENMPI_RUN,
        {**_AS_ROOT, "OMPI_MCA_smsc": "^cma"},
    ),
    Peer("mpich", *_MPICH),
    Peer("mpich-rg", *_MPICH, _RELEASE_GATHER),
    Peer(
        "intelmpi", "intelmpi", ("mpi4py", "impi-rt", "numpy"), ("mpiexec",),
        {"I_MPI_PIN": "0"},
    ),
    Peer("gloo", "gloo", ("torch", "numpy")),
)  # fmt: skip


#: The variables with which a library follows a tuning file.
ENVIRONMENTS = {"openmpi": openmpi.environment, "mpich": mpich.environment}

#: The end of the name of a library that follows one.
TUNED = "-tuned"

#: The marker file of an environment made here, complete or not.
BEGUN = "collalgo-bench"

#: The marker file of a complete one.
INSTALLED = "installed"


def peers(names: str) -> list[Peer]:
    """The variants of the named libraries, separated by commas, or of ``all``.

    A name with a tuning file, as ``openmpi:rules.conf``, is a library with its
    defaults, and with the file.
    """
    known = dict.fromkeys(peer.environment for peer in PEERS)
    wanted = list(known) if names == "all" else names.split(",")
    chosen: list[Peer] = []
    for name in wanted:
        if ":" in name:
            chosen += tuned(*name.split(":", 1))
            continue
        found = [peer for peer in PEERS if name in (peer.environment, peer.name)]
        if not found:
            alone = "mpi, the mpi4py of the job, is compared alone; " * (name == "mpi")
            raise ValueError(
                f"{alone or f'unknown peer {name!r}; '}choose from {', '.join(known)}"
            )
        chosen += found if name in known else [p for p in found if p.name == name]
    return chosen


def tuned(name: str, file: str) -> tuple[Peer, Peer]:
    """A library with its defaults, and with a tuning file.

    Raises
    ------
    ValueError
        If the library reads none here, or there is no such file.
    """
    if name not in ENVIRONMENTS:
        able = " and ".join(ENVIRONMENTS)
        raise ValueError(f"{name}:{file}: of the peers only {able} read tuning files")
    if not Path(file).is_file():
        raise ValueError(f"{name}:{file}: there is no such file")
    found = next(peer for peer in PEERS if peer.name == name)
    settings = {**found.settings, **ENVIRONMENTS[name](str(Path(file).resolve()))}
    return found, replace(found, name=name + TUNED, settings=settings)


def folder_of(peer: Peer) -> Path:
    """The folder of a peer's environment."""
    return cache() / peer.environment


def cache() -> Path:
    """The folder of all environments."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "collalgo" / "peers"


def is_installed(peer: Peer) -> bool:
    """Whether a peer's environment is complete."""
    return (folder_of(peer) / INSTALLED).is_file()


def installs(wanted: Iterable[Peer]) -> list[str]:
    """What is installed for some peers, as sentences."""
    missing = {p.environment: p.packages for p in wanted if not is_installed(p)}
    return [
        f"installs {name} ({', '.join(packages)}) from PyPI into {cache()}, once: a "
        "minute or more"
        for name, packages in missing.items()
    ]


def _take(folder: Path) -> None:
    """Create the folder of an environment, or reuse one created here.

    Raises
    ------
    RuntimeError
        If the folder was not created here, or cannot be created.
    """
    begun = folder / BEGUN
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not begun.is_file() and any(folder.iterdir()):
            raise RuntimeError(
                f"{folder} exists, and collalgo bench has not made it; remove it, or "
                "set XDG_CACHE_HOME to another folder"
            )
        begun.touch()
    except OSError as error:
        raise RuntimeError(f"cannot install into {folder}: {error}") from None


def install(peer: Peer) -> Path:
    """The folder of a peer's environment, installed at the first use.

    Raises
    ------
    RuntimeError
        If pip cannot install it, or another program made the folder.
    """
    folder = folder_of(peer)
    if is_installed(peer):
        return folder
    _take(folder)
    print(f"installing {' '.join(peer.packages)} into {folder}", file=sys.stderr)
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", *peer.packages]
    for command in ([sys.executable, "-m", "venv", str(folder)], pip):
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if made.returncode:
            raise RuntimeError(f"cannot install {peer.environment}: {made.stderr}")
    (folder / INSTALLED).touch()
    return folder
