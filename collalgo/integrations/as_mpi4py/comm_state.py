"""What a communicator is: its ranks, its name for messages, and its calls."""

import weakref
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from hashlib import blake2b
from threading import Lock
from typing import Any, ClassVar

from collalgo.errors import CollalgoError
from collalgo.integrations.as_mpi4py.errhandlers import ERRORS_RETURN, Errhandler
from collalgo.integrations.as_mpi4py.handles import State
from collalgo.integrations.as_mpi4py.process import PROCESS

#: The most probes that are kept.
MOST_PROBES = 64


def context_of(*parts: object) -> int:
    """The id of a communicator in its messages, on which its ranks agree.

    The lowest bits are free for kinds of messages that never match each other.
    """
    digest = blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") & ~7


class CommState(State):
    """A communicator.

    Attributes
    ----------
    context : int
        Its number in messages, the same on all ranks.
    ranks : tuple of int
        The ranks of the world that it consists of.
    remote : tuple of int
        Those that its messages go to: the same, but in an intercommunicator.
    rank, size : int
        The number of this rank, and of the ranks.
    topology
        How the ranks are arranged; None if they are not.
    private : CommState or None
        The same ranks with messages of their own; ``private_calls`` have used it.
    under_way : set of Operation
        The collectives in the background.
    empty_probes : dict
        The last probes that have found no message, by what they expect.
    """

    is_inter: ClassVar[bool] = False
    handle_class: ClassVar[Any] = None

    def __init__(self, context: int, ranks: Sequence[int], topology: Any = None):
        super().__init__()
        self.context, self.ranks = context, tuple(ranks)
        self.remote = self.ranks
        self.rank, self.size = self.ranks.index(PROCESS.world.rank), len(self.ranks)
        self.topology = topology
        self.attributes: dict[int, Any] = {}
        self.name = ""
        self.info: dict[str, str] = {}
        self.errhandler = Errhandler(ERRORS_RETURN)
        self.attached: Any = None
        self.under_way: weakref.WeakSet[Any] = weakref.WeakSet()
        self.empty_probes: dict[Any, Any] = {}
        self.private: Any = None
        self.private_calls = 0
        self.local: Any = None
        self.locks: dict[Any, Lock] = {}
        self._children: Counter[Any] = Counter()

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of the world that make collectives together."""
        return self.ranks

    @cached_property
    def engine(self) -> Any:
        """The communicator of the library, which makes the collectives."""
        world = PROCESS.world
        if self.predefined == "COMM_WORLD":
            return world
        made = world.group(self.members)
        made.timeout = world.timeout
        return made

    def keep_empty(self, key: Any, probe: Any) -> None:
        """Keep a probe that has found no message, as others may follow."""
        if len(self.empty_probes) >= MOST_PROBES:
            self.empty_probes.clear()
        self.empty_probes[key] = probe

    def lock(self, call: Any) -> Lock:
        """The lock of a call, which threads make one after the other."""
        return self.locks.setdefault(call, Lock())

    def connect(self) -> None:
        """Connect the ranks now, as later they may make calls in other orders."""
        _ = self.engine

    def child_context(self, *parts: object, by_all: bool) -> int:
        """The number of a communicator that is made of this one.

        ``parts`` are the same on all ranks of the new one. The call is made either by
        all ranks of this one, in the same order, or by those of the new one.
        """
        among = "all" if by_all else parts
        self._children[among] += 1
        return context_of(self.context, parts, by_all, self._children[among])

    def close(self) -> None:
        """Release the communicator of the library, unless calls are under way."""
        engine = self.__dict__.pop("engine", None)
        if engine is None or any(not one.is_over() for one in self.under_way):
            return
        with suppress(CollalgoError):
            engine.close()
