"""The package ``mpi4py`` for the ranks of ``collalgo run --as-mpi4py``.

Other modules of an mpi4py that is installed, as ``mpi4py.futures`` and ``mpi4py.util``,
which are in Python, work on top of the module here.
"""

import sys
from importlib import import_module
from pkgutil import extend_path
from typing import Any

from collalgo.integrations.as_mpi4py.run_control import rc

sys.modules[f"{__name__}.rc"] = rc  # type: ignore[assignment]
__version__ = "4.1.2"
__path__ = extend_path(__path__, __name__)
__all__ = ["MPI"]


def __getattr__(name: str) -> Any:
    if name != "MPI":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("mpi4py.MPI")


def get_include() -> str:
    """There are no headers."""
    raise NotImplementedError("collalgo run --as-mpi4py has no C headers")


def get_config() -> dict[str, str]:
    """No compilers were used."""
    return {}


def profile(*_arguments: Any, **_named: Any) -> None:
    """Do nothing: there is no profiler of MPI."""
