"""The arguments with which a process joins the other ranks of its job."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from collalgo.base.integers import integer
from collalgo.bootstrap.context import JOIN_TIMEOUT
from collalgo.bootstrap.identity import Identity, Route, identity
from collalgo.bootstrap.launcher_variables import MOST_RANKS


@dataclass(frozen=True, eq=False, repr=False)
class JoinArguments:
    """The arguments of :func:`collalgo.init` for joining.

    Attributes
    ----------
    store : str, object or None
        URL or key-value store of the rendezvous; None: that of the launcher.
    rank, size : int or None
        Position of this process, if neither the launcher nor the URL defines it.
    secret : str or None
        Shared secret of the job, a text, for a store by TCP; None: that of
        ``COLLALGO_SECRET``.
    engine : str or None
        Engine between hosts; None: the default of the launcher.
    timeout : float
        Seconds to wait for all ranks to join.
    """

    store: Any = None
    rank: int | None = None
    size: int | None = None
    secret: str | None = None
    engine: str | None = None
    timeout: float = JOIN_TIMEOUT

    def __post_init__(self) -> None:
        if self.secret is not None and not isinstance(self.secret, str):
            raise TypeError(
                f"init: secret is of type {type(self.secret).__name__}; pass a text"
            )

    @cached_property
    def launched(self) -> Identity | None:
        """The identity that the launcher gave this process; None with a store."""
        return identity() if self.store is None else None

    @property
    def over_mpi(self) -> bool:
        """Whether the ranks connect over MPI or PMI."""
        me = self.launched
        return me is not None and me.route is Route.MPI and me.size > 1

    @property
    def position(self) -> tuple[int, int]:
        """Rank and size.

        Raises
        ------
        ValueError
            If neither the launcher nor the arguments define them, or they are
            impossible.
        """
        if self.launched is not None:
            return self.launched.rank, self.launched.size
        if self.rank is None or self.size is None:
            raise ValueError(
                f"init: a rendezvous address needs rank and size too, 0 <= rank < "
                f"size; these are rank {self.rank} and size {self.size}"
            )
        size = integer(self.size, "size", "init", 1, MOST_RANKS)
        return integer(self.rank, "rank", "init", 0, size - 1), size
