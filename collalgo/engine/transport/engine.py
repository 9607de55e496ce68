"""Engines between hosts: the interface, and the choice by name."""

from typing import Any, Protocol

from collalgo._kernels.engine.transport.wire import Wire
from collalgo.base import environment, plugins
from collalgo.base.variable_values import ENGINES
from collalgo.errors import BootstrapError

#: The names of the engines.
KINDS = ENGINES

#: What the title of an engine adds if it sends arrays on CUDA devices itself.
CUDA_AWARE = ", CUDA-aware"


class Engine(Protocol):
    """An engine between hosts, as used by a process that joins a world.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`, or the name of a plug-in.
    """

    kind: str

    def host(self) -> str:
        """The identity of this host for this engine: three words or more.

        The first two are the machine and its network namespace, as read from the
        system.
        """

    def wire(self, store: Any, rank: int, size: int, timeout: float) -> Wire:
        """The wire of this process, once all processes have met at a store."""

    def worlds(self) -> int:
        """The number of worlds that tags can distinguish."""

    def title(self) -> str:
        """Its name and version."""

    def end(self, *, peer_died: bool, has_failed: bool) -> None:
        """Release all resources as the process ends, after a death or a failed call."""


def takes_devices() -> bool:
    """Whether the user lets an engine take arrays on devices."""
    return bool(environment.CUDA_AWARE.value() != "0")


def asked_for(engine: str | None) -> str | None:
    """The engine that an argument or the environment names, if any.

    Raises
    ------
    BootstrapError
        If there is no engine of that name.
    """
    kind: str | None = engine or environment.ENGINE.value()
    if kind is not None and kind not in KINDS:
        added = plugins.names(plugins.TRANSPORTS)
        if kind not in added:
            known = ", ".join([*KINDS, *added])
            raise BootstrapError(f"there is no engine {kind!r}; choose one of {known}")
    return kind


def added_engine(kind: str | None) -> Engine | None:
    """The engine of another package by its name; None for our own engines.

    Raises
    ------
    PluginError
        If the package cannot be imported.
    """
    if kind is None or kind in KINDS:
        return None
    make = plugins.find(plugins.TRANSPORTS, kind)
    engine: Engine = make()
    return engine
