"""MPI programs in C, whose collectives on one host run on the engine, unchanged.

``collalgo run --preload`` preloads a library into them, which has some functions of MPI
under their names. It starts an interpreter in each process, once, as plans are made in
Python; a call then runs in compiled code only.
"""

import math
import mmap
import os
import re
import shutil
import sys
import sysconfig
from collections.abc import MutableMapping
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING

from collalgo.base.environment import (
    PRELOAD,
    PRELOAD_LIBRARY,
    PRELOAD_PYTHON,
    TIMEOUT,
)
from collalgo.errors import BootstrapError

if TYPE_CHECKING:
    from collalgo.bootstrap.exchange import ExchangeGroup
    from collalgo.comm.communicator import Communicator

#: The collectives that the library can take.
TAKEN = (
    "allreduce", "broadcast", "reduce_scatter", "allgather", "alltoall", "barrier",
)  # fmt: skip

#: The libraries of MPI that its programs load.
LIBRARIES = rb"libmpi(ch)?(_abi)?\.so"

#: The library to preload.
PRELOADED = Path(__file__).parents[1] / "_kernels" / "integrations" / "mpi_preload"


def preload(environment: MutableMapping[str, str]) -> None:
    """Let programs that get an environment load the library first.

    Raises
    ------
    BootstrapError
        If the library is not compiled, or this Python has no shared library, which
        the programs would load.
    VariableError
        If the user asks for a collective that cannot be taken.
    """
    unknown = set(PRELOAD.value(environment) or ()).difference(TAKEN)
    if unknown:
        raise PRELOAD.wrong(
            f"has {', '.join(sorted(unknown))}; pass some of {', '.join(TAKEN)}",
            PRELOAD.given(environment),
        )
    library = library_to_preload()
    python = Path(
        sysconfig.get_config_var("LIBDIR") or "",
        sysconfig.get_config_var("INSTSONAME") or "",
    )
    if ".so" not in python.name or not python.exists():
        raise BootstrapError(
            f"--preload needs the shared library of Python, which {sys.executable} "
            "does not have; use a Python that was built with --enable-shared"
        )
    environment[PRELOAD_LIBRARY.name] = str(python)
    environment[PRELOAD_PYTHON.name] = sys.executable
    others = environment.get("LD_PRELOAD", "").split(":")
    environment["LD_PRELOAD"] = ":".join(filter(None, (str(library), *others)))


def is_of_mpi(program: str) -> bool:
    """Whether a program is one of MPI itself, which no launcher of its ranks is."""
    path = shutil.which(program)
    if path is None:
        return False
    with (
        suppress(OSError, ValueError),  # it cannot be read, or is empty
        Path(path).open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        return re.search(LIBRARIES, content) is not None
    return False


def library_to_preload() -> Path:
    """The library that the programs load.

    Raises
    ------
    BootstrapError
        If it is not compiled: programs would run without it, as the loader only warns.
    """
    library = PRELOADED.with_name(PRELOADED.name + EXTENSION_SUFFIXES[0])
    if not library.exists():
        raise BootstrapError(
            f"--preload needs {library}, which is not compiled; install all of "
            "collalgo: pip install -e . in its sources, or make .venv/installed"
        )
    return library


def start(address: int) -> None:
    """Begin to serve the library, whose interface is at an address."""
    from collalgo._kernels.integrations.mpi_calls import provide

    _forget_library(os.environ)
    provide(address, communicator_of)


def _forget_library(environment: MutableMapping[str, str]) -> None:
    """Let the programs that a rank starts, which need no interpreter, not load it."""
    library = PRELOADED.name + EXTENSION_SUFFIXES[0]
    loaded = environment.pop("LD_PRELOAD", "").replace(":", " ").split()
    others = [each for each in loaded if Path(each).name != library]
    if others:
        environment["LD_PRELOAD"] = ":".join(others)


def communicator_of(ranks: "ExchangeGroup") -> "Communicator | None":
    """The communicator of ranks on one host; None if they are on several."""
    from collalgo.bootstrap.connect import connect, without_mpi
    from collalgo.bootstrap.context import JOIN_TIMEOUT
    from collalgo.comm.communicator import Communicator

    engine = without_mpi(None, ranks.rank)
    if len(set(ranks.allgather(engine.host()))) > 1:
        return None
    comm = Communicator(connect(ranks, engine, JOIN_TIMEOUT))
    if not TIMEOUT.given():
        comm.timeout = math.inf  # as MPI waits
    return comm
