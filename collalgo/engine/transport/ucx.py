"""UCX as the engine between hosts, for worlds without mpiexec."""

import ctypes
import importlib.util
import os
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from collalgo._kernels.engine.transport.network import TAGS
from collalgo._kernels.engine.transport.ucx import FUNCTIONS, UcxWire
from collalgo.base import environment
from collalgo.base.libraries import addresses_of
from collalgo.engine.transport.engine import CUDA_AWARE, takes_devices
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity

#: The worlds that 32 bits of a tag can distinguish.
WORLDS = 2**31 // TAGS

#: The bit of ``ucp_context_attr_t`` that requests its types of memory, and the bit of
#: CUDA (``UCS_MEMORY_TYPE_CUDA``) among these.
FIELD_MEMORY_TYPES, CUDA_MEMORY = 1 << 2, 1 << 1

#: The text that a rank without UCX publishes instead of the address of its worker.
MISSING = b""

#: Inside a host collalgo's own shared memory is used. A lost host is detected after
#: some seconds, and segments of this size do not slow TCP down.
SETTINGS = {
    "TLS": "^sm",
    "TCP_TX_SEG_SIZE": "256k",
    "TCP_RX_SEG_SIZE": "256k",
    "TCP_USER_TIMEOUT": "2s",
    "TCP_KEEPIDLE": "1s",
    "TCP_KEEPINTVL": "1s",
    "TCP_KEEPCNT": "2",
}


class Ucx:
    """UCX, for ranks that connect over a store; see :class:`~.engine.Engine`."""

    kind = "ucx"

    def __init__(self) -> None:
        self._wire: UcxWire | None = None
        self.is_cuda_aware = False  # until it is known

    @cached_property
    def _functions(self) -> dict[str, int]:
        return library()[1]

    def host(self) -> str:
        """The identity of this host."""
        return identity()

    def wire(self, store: Any, rank: int, size: int, timeout: float) -> UcxWire:
        """The worker of this process, connected to those of all others.

        Variables of UCX in the environment take precedence.

        Raises
        ------
        BootstrapError
            If UCX is not installed, or cannot start.
        """
        settings = {
            name: value
            for name, value in SETTINGS.items()
            if f"UCX_{name}" not in os.environ
        }
        try:
            wire = UcxWire(self._functions, settings, rank, size)
        except OSError as error:
            store.set(f"ucx/{rank}", MISSING)
            raise _unusable(rank, str(error)) from None
        store.set(f"ucx/{rank}", wire.address())
        wire.connect(_addresses(store, size, timeout))
        kinds = memory_types(self._functions, wire.context_address())
        self.is_cuda_aware = bool(kinds & CUDA_MEMORY)
        wire.is_cuda_aware = takes_devices()
        self._wire = wire
        return wire

    def check(self, rank: int) -> None:
        """Check that UCX can be loaded on this rank.

        Raises
        ------
        BootstrapError
            If not.
        """
        try:
            _ = self._functions
        except OSError as error:
            raise _unusable(rank, str(error)) from None

    def worlds(self) -> int:
        """The number of worlds that tags can distinguish."""
        return WORLDS

    def title(self) -> str:
        """Its name and version, and whether it takes memory of CUDA devices."""
        return f"UCX {version(self._functions)}" + CUDA_AWARE * self.is_cuda_aware

    def end(self, *, peer_died: bool, has_failed: bool) -> None:
        """Flush pending sends, and destroy the worker."""
        if self._wire is not None:
            self._wire.close(peer_died or has_failed)


def _addresses(store: Any, size: int, timeout: float) -> list[bytes]:
    """The addresses of all workers."""
    found: list[bytes] = []
    for rank, address in enumerate(store.each("ucx/", size, timeout)):
        if address == MISSING:
            raise _unusable(rank, "see its own error")
        found.append(address)
    return found


def _unusable(rank: int, reason: str) -> BootstrapError:
    """The error if a rank cannot use UCX."""
    return BootstrapError(
        f"rank {rank} cannot use UCX, the engine between hosts ({reason}); install it "
        "there: pip install collalgo[ucx]",
        rank=rank,
        missing=(rank,),
    )


def version(functions: dict[str, int]) -> str:
    """The version of the UCX library."""
    numbers = [ctypes.c_uint() for _ in range(3)]
    ask = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(ctypes.c_uint)] * 3)
    ask(functions["ucp_get_version"])(*map(ctypes.byref, numbers))
    return ".".join(str(number.value) for number in numbers)


class ContextAttributes(ctypes.Structure):
    """The requested fields of ``ucp_context_attr_t``."""

    _fields_ = (
        ("field_mask", ctypes.c_uint64),
        ("request_size", ctypes.c_size_t),
        ("thread_mode", ctypes.c_int),
        ("memory_types", ctypes.c_uint64),
    )


def memory_types(functions: dict[str, int], context: int) -> int:
    """The types of memory that a context of UCX can send, as bits; 0 if unknown."""
    found = ContextAttributes(field_mask=FIELD_MEMORY_TYPES)
    types = ctypes.c_void_p, ctypes.POINTER(ContextAttributes)
    ask = ctypes.CFUNCTYPE(ctypes.c_int8, *types)(functions["ucp_context_query"])
    status = ask(context, ctypes.byref(found))
    return 0 if status else int(found.memory_types)


def library() -> tuple[str, dict[str, int]]:
    """The path of the first UCX library found, and the addresses of its functions.

    Raises
    ------
    OSError
        If none is found.
    """
    return _library(environment.UCX.given())


@cache
def _library(given: str) -> tuple[str, dict[str, int]]:
    """The same, for a library that the environment names, if any."""
    source = f"{environment.UCX.name}=" if given else ""
    problem: OSError = FileNotFoundError("no libucp.so.0")
    for path in _libraries(given):
        try:
            found = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return path, addresses_of(found, FUNCTIONS)
        except (OSError, AttributeError) as error:
            problem = OSError(f"{source}{path}: {error}")
    raise problem


def _libraries(given: str) -> list[str]:
    """Candidate libraries: of the environment, of the PyPI package, of the system."""
    if given:  # which no other replaces in silence
        return [given]
    found = []
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("libucx")
        folders = (spec and spec.submodule_search_locations) or ()
        found += [str(Path(folder) / "lib" / "libucp.so.0") for folder in folders]
    return [*found, "libucp.so.0"]
