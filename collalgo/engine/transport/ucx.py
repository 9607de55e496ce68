"""The engine between hosts that UCX is, for worlds that no mpiexec has started."""

import ctypes
import importlib.util
import os
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from collalgo._kernels.engine.transport.transport import LANES
from collalgo._kernels.engine.transport.ucx import FUNCTIONS, UcxWire
from collalgo.base.libraries import addresses_of
from collalgo.errors import BootstrapError
from collalgo.topology.ranks import identity

#: A library to be used before all others.
VARIABLE = "COLLALGO_UCX"

#: The worlds that 32 bits of a tag can tell apart.
WORLDS = 2**31 // LANES

#: Inside a host our own memory is used. A lost host is noticed after some seconds, and
#: segments as large as this do not slow TCP down.
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
    """UCX, for the ranks that meet at a store; see :class:`~.engine.Engine`."""

    kind = "ucx"

    def __init__(self) -> None:
        self._wire: UcxWire | None = None

    @cached_property
    def _functions(self) -> dict[str, int]:
        return library()[1]

    def host(self) -> str:
        """What tells this host from others."""
        return identity()

    def wire(self, store: Any, rank: int, size: int, timeout: float) -> UcxWire:
        """The worker of this process, which has met those of all others.

        What its environment says of UCX goes before all else.

        Raises
        ------
        BootstrapError
            If there is no UCX, or it cannot start.
        """
        settings = {
            name: value
            for name, value in SETTINGS.items()
            if f"UCX_{name}" not in os.environ
        }
        try:
            wire = UcxWire(self._functions, settings, rank, size)
        except OSError as error:
            raise BootstrapError(
                f"the ranks are on several hosts, between which UCX is to carry their "
                f"messages, but it cannot be used ({error}); install it with: "
                "pip install collalgo[ucx]",
                rank=rank,
            ) from None
        store.set(f"ucx/{rank}", wire.address())
        wire.meet([store.get(f"ucx/{other}", timeout) for other in range(size)])
        self._wire = wire
        return wire

    def worlds(self) -> int:
        """How many worlds can be told apart by tags."""
        return WORLDS

    def title(self) -> str:
        """Its name and version."""
        return f"UCX {version(self._functions)}"

    def end(self, *, peer_died: bool) -> None:
        """Send what is still to be sent, and let go of the worker."""
        if self._wire is not None:
            self._wire.close(peer_died)


def version(functions: dict[str, int]) -> str:
    """The version of a UCX."""
    numbers = [ctypes.c_uint() for _ in range(3)]
    ask = ctypes.CFUNCTYPE(None, *[ctypes.POINTER(ctypes.c_uint)] * 3)
    ask(functions["ucp_get_version"])(*map(ctypes.byref, numbers))
    return ".".join(str(number.value) for number in numbers)


def library() -> tuple[str, dict[str, int]]:
    """The first UCX that is found, and the addresses of its functions.

    Raises
    ------
    OSError
        If there is none.
    """
    problem: OSError = FileNotFoundError("no libucp.so.0")
    for path in _libraries():
        try:
            found = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
            return path, addresses_of(found, FUNCTIONS)
        except (OSError, AttributeError) as error:
            problem = OSError(f"{path}: {error}")
    raise problem


def _libraries() -> list[str]:
    """Where UCX may be: as told, of the package from PyPI, of the system."""
    found = [os.environ[VARIABLE]] if os.environ.get(VARIABLE) else []
    with suppress(ImportError, ValueError):
        spec = importlib.util.find_spec("libucx")
        folders = (spec and spec.submodule_search_locations) or ()
        found += [str(Path(folder) / "lib" / "libucp.so.0") for folder in folders]
    return [*found, "libucp.so.0"]
