"""The functions of the module: start and end, clocks, memory, and names."""

import platform
import time
from typing import Any

import numpy as np

from collalgo._version import __version__
from collalgo.integrations.as_mpi4py.buffers import Buffer
from collalgo.integrations.as_mpi4py.comm import connect_world
from collalgo.integrations.as_mpi4py.constants import NUMBERS
from collalgo.integrations.as_mpi4py.errors import fail, raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.infos import INFO_NULL, Info
from collalgo.integrations.as_mpi4py.memory import Special, memory_of
from collalgo.integrations.as_mpi4py.process import (
    PROCESS,
    is_thread_main,
    thread_level,
)

VENDOR = "collalgo"


@raises_mpi_exceptions
def Init() -> None:
    """Join the world."""
    if PROCESS.world is not None:
        fail("ERR_OTHER", "MPI.Init() was called twice")
    connect_world()


def Init_thread(required: int = NUMBERS["THREAD_MULTIPLE"]) -> int:
    """Join the world: the level of thread support."""
    del required
    Init()
    return thread_level()


def Finalize() -> None:
    """Leave the world, when all ranks do."""
    if PROCESS.world is None or PROCESS.is_finalized:
        fail("ERR_OTHER", "MPI.Finalize() needs MPI.Init(), and is called once")
    PROCESS.finish()


def Is_initialized() -> bool:
    """Whether the program has joined the world."""
    return PROCESS.world is not None


def Is_finalized() -> bool:
    """Whether the program has left the world."""
    return PROCESS.is_finalized


def Query_thread() -> int:
    """The level of thread support."""
    return thread_level()


def Is_thread_main() -> bool:
    """Whether the calling thread is that which joined."""
    return is_thread_main()


def Get_version() -> tuple[int, int]:
    """The version of the interface."""
    return NUMBERS["VERSION"], NUMBERS["SUBVERSION"]


def Get_library_version() -> str:
    """The name and the version of the library."""
    return f"{VENDOR} {__version__}"


def get_vendor() -> tuple[str, tuple[int, ...]]:
    """The name of the library, and its version as three numbers."""
    return VENDOR, tuple(int(part) for part in __version__.split(".")[:3])


def Get_processor_name() -> str:
    """The name of this host."""
    return platform.node()


def Get_hw_resource_info() -> Any:
    """No hints."""
    return Info.Create()


def Wtime() -> float:
    """The time since some moment, in seconds."""
    return time.perf_counter()


def Wtick() -> float:
    """The resolution of :func:`Wtime`, in seconds."""
    return time.get_clock_info("perf_counter").resolution


def Pcontrol(level: int) -> None:
    """Do nothing: there is no profiler."""
    if not 0 <= level <= 2:
        fail("ERR_ARG", f"level {level} is not 0, 1 or 2")


def Alloc_mem(size: int, info: Any = INFO_NULL) -> Buffer:
    """New memory of some bytes."""
    del info
    return Buffer.allocate(size)


def Free_mem(mem: Any) -> None:
    """Leave the memory to the garbage collector."""
    if not isinstance(mem, Buffer):
        raise TypeError(f"{type(mem).__name__} is not what Alloc_mem returned")
    mem.release()


def Get_address(location: Any) -> int:
    """The address of a buffer."""
    if isinstance(location, Special):
        return int(location)
    return int(memory_of(location, writable=False)[0].ctypes.data)


def Aint_add(base: int, disp: int) -> int:
    """An address some bytes further."""
    return int(np.intp(base + disp))


def Aint_diff(addr1: int, addr2: int) -> int:
    """The distance of two addresses."""
    return int(np.intp(addr1 - addr2))
