"""The engine between hosts that UCX is, for worlds that no mpiexec has started."""

import ctypes
import importlib.util
import os
from contextlib import suppress
from pathlib import Path

from collalgo._kernels.transport import LANES
from collalgo._kernels.ucx import FUNCTIONS, UcxWire
from collalgo.errors import BootstrapError
from collalgo.transport.libraries import addresses_of

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


def wire(rank: int, size: int) -> UcxWire:
    """The worker of a process; what its environment says of UCX goes before all else.

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
        return UcxWire(library()[1], settings, rank, size)
    except OSError as error:
        raise BootstrapError(
            f"the ranks are on several hosts, which no mpiexec has started, and UCX "
            f"cannot be used ({error}); install it with: pip install collalgo[ucx]",
            rank=rank,
        ) from None


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
