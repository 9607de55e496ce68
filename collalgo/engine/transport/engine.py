"""Engines: what carries messages between hosts, and which of them is asked for."""

import os
from typing import Any, Protocol

from collalgo._kernels.engine.transport.wire import Wire
from collalgo.errors import BootstrapError

#: What may be asked for.
KINDS = ("mpi", "ucx")

#: The engine to be used, and no other.
VARIABLE = "COLLALGO_ENGINE"


class Engine(Protocol):
    """An engine between hosts, as a process that is to join a world sees it.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`.
    """

    kind: str

    def host(self) -> str:
        """What tells this host from others, for this engine: three words or more.

        The first two are those of the machine and its network, which nobody makes up.
        """

    def wire(self, store: Any, rank: int, size: int, timeout: float) -> Wire:
        """The end of this process, once all have met at a store."""

    def worlds(self) -> int:
        """How many worlds can be told apart by tags."""

    def title(self) -> str:
        """Its name and version."""

    def end(self, *, peer_died: bool) -> None:
        """Let go of all, as the process ends; after a death, if it is ``peer_died``."""


def asked_for(engine: str | None) -> str | None:
    """The engine that an argument or the environment asks for, if any.

    Raises
    ------
    BootstrapError
        If there is none of that name.
    """
    kind = engine or os.environ.get(VARIABLE) or None
    if kind is not None and kind not in KINDS:
        raise BootstrapError(
            f"there is no engine {kind!r}; choose one of {', '.join(KINDS)}"
        )
    return kind
