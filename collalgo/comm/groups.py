"""The calls of a communicator that make communicators of its ranks."""

import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from collalgo.base.arguments import shown
from collalgo.base.integers import INT64_MAX, integer, rank_of
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.group_calls import GroupCall
from collalgo.bootstrap.liveness_check import ProcessGone
from collalgo.comm.hang_hint import with_hint
from collalgo.comm.host_groups import cross_ranks, local_ranks
from collalgo.comm.reasons import OF_DEFAULT
from collalgo.comm.runner import Runner
from collalgo.comm.world_failures import failure_error
from collalgo.errors import BootstrapError, CollalgoError, CollectiveTimeout

if TYPE_CHECKING:  # imported where it is used, as few jobs need it
    from collalgo.comm.neighbors import Neighbors

#: A kind of communicator, whose groups are of the same kind.
Kind = TypeVar("Kind", bound="Groups")


class Groups:
    """Communicators of some ranks of a communicator.

    The ranks that a group is made of must make the call between the same other calls.
    Its wait for them is limited by the timeout of the communicator.
    """

    rank: int
    size: int
    hosts: Sequence[int]
    _runner: Runner

    @cached_property
    def _parts(self) -> dict[str, Any]:
        return {}

    def group(self: Kind, ranks: Sequence[int]) -> Kind:
        """Make a communicator of some of the ranks; only these call it.

        Parameters
        ----------
        ranks
            Ranks of this communicator; their order gives the ranks of the new one.

        Raises
        ------
        MismatchError
            If a member makes another call, or passes other ranks.
        CollectiveTimeout
            If a member does not make the call in time.
        PeerFailed
            If a member has died or left.
        """
        if not isinstance(ranks, Iterable):
            raise TypeError(f"group: ranks is {shown(ranks)}; pass a sequence of ranks")
        members = tuple(rank_of(rank, "rank", "group", self.size) for rank in ranks)
        for place, rank in enumerate(members):
            if rank in members[:place]:
                raise ValueError(
                    f"group: ranks {list(members)} name rank {rank} twice; name each "
                    "member once"
                )
        if self.rank not in members:
            raise ValueError(
                f"group: rank {self.rank} is not in the group {list(members)}; "
                "only its members may call"
            )
        return self._meet("group", members)

    def split(self: Kind, color: int | None, key: int = 0) -> Kind | None:
        """Split all ranks by ``color``; order each part by ``key``, then by rank.

        Returns
        -------
        Communicator or None
            None where ``color`` is None.
        """
        given = 0 if color is None else integer(color, "color", "split", -INT64_MAX)
        key = integer(key, "key", "split", -INT64_MAX)
        mine = np.array([color is not None, given, key], np.int64)
        rows = self._runner.exchange_as_call(mine, "split").tolist()
        if color is None:
            return None
        alike = [rank for rank, row in enumerate(rows) if row[0] and row[1] == given]
        alike.sort(key=lambda rank: rows[rank][2])  # which keeps the order of ranks
        return self._connect("split", tuple(alike))

    def dup(self: Kind) -> Kind:
        """Make a communicator of the same ranks, with calls of its own."""
        self._runner.exchange_as_call(np.zeros(1, np.int64), "dup")
        return self._connect("dup", tuple(range(self.size)))

    def neighbors(self, graph: Any) -> "Neighbors":
        """Collectives among neighbors in a graph of the ranks (collective).

        Parameters
        ----------
        graph
            The ranks that each rank sends to, the same on every rank: a list of lists,
            a dictionary, or a graph of networkx whose nodes are ranks. Or, on every
            rank, a list of its own. A rank that a list names twice is one neighbor.
            :func:`collalgo.cartesian` makes grids.

        Raises
        ------
        ValueError
            If the lists are rows of an adjacency matrix, of 0 and 1 for each rank.
        MismatchError
            If ranks pass different graphs.

        Examples
        --------
        >>> import collalgo
        >>> import numpy as np
        >>> def to_the_right(comm):
        ...     ring = comm.neighbors([(comm.rank + 1) % comm.size])
        ...     return ring.allgather(np.array(comm.rank)).tolist()
        >>> collalgo.threads(to_the_right, size=3)
        [[2], [0], [1]]
        """
        from collalgo.comm.graphs import agreed_graph
        from collalgo.comm.neighbors import Neighbors

        return Neighbors(self._runner, agreed_graph(self._runner, graph))

    @property
    def local(self: Kind) -> Kind:
        """The communicator of the ranks of this host, in their order.

        All of them must ask for it the first time. In the world of a launcher its rank
        is ``LOCAL_RANK``.
        """
        return self._kept("local", local_ranks(self.hosts, self.rank))

    @property
    def cross(self: Kind) -> Kind:
        """The communicator of the ranks with the local rank of this one, of all hosts.

        As for :attr:`local`; its rank is ``CROSS_RANK``.
        """
        return self._kept("cross", cross_ranks(self.hosts, self.rank))

    def _kept(self: Kind, name: str, members: tuple[int, ...]) -> Kind:
        """A group that is made at its first use, and again when it was closed."""
        found: Kind | None = self._parts.get(name)
        if found is None or found._runner.context.transport.closed:
            found = self._parts[name] = self._meet(name, members)
        return found

    def _connect(self: Kind, name: str, members: tuple[int, ...]) -> Kind:
        """A communicator of ranks that have agreed on it in an exchange."""
        context = self._runner.context
        call = context.group_calls.new(name, members)
        try:
            return self._made(
                context.rendezvous.connect(
                    call.path, members.index(self.rank), members, self._runner.timeout,
                    have_met=True,
                ),
                members,
            )  # fmt: skip
        except ProcessGone as error:
            raise self._gone(call, self._runner.call_number, error) from None

    def _meet(self: Kind, name: str, members: tuple[int, ...]) -> Kind:
        """A communicator of ranks that call for it alone, and wait for each other."""
        self._runner.check_open(name)
        context, timeout = self._runner.context, self._runner.timeout
        call = context.group_calls.new(name, members)
        deadline = time.monotonic() + timeout
        with context.group_calls.waiting(call):
            try:
                return self._made(
                    context.rendezvous.connect(
                        call.path, members.index(self.rank), members, timeout,
                        check=self._check,
                    ),
                    members,
                )  # fmt: skip
            except ProcessGone as error:
                raise self._gone(call, self._runner.call_number + 1, error) from None
            except BootstrapError as error:
                if time.monotonic() < deadline:
                    raise
                raise self._late(call, error.missing) from None

    def _made(self: Kind, context: Context, members: tuple[int, ...]) -> Kind:
        self._runner.context.add_group(context, members)
        return type(self)(self._runner.subgroup(context, members), self._runner.timeout)  # type: ignore[call-arg]

    def _check(self) -> None:
        """Raise MismatchError if members are known to make another call."""
        runner = self._runner
        if runner.progress.idle and runner.context.has_other_calls():
            raise failure_error(runner.context, runner.context.failure())

    def _gone(self, call: GroupCall, number: int, error: ProcessGone) -> CollalgoError:
        """The error of a wait for a rank that has died or left."""
        return failure_error(
            self._runner.context,
            {
                "kind": "peer",
                "mine": {"name": call.name, "number": number},
                "culprit": error.missing[0],
                "exit_reason": error.why,
                "last_calls": {},
            },
        )

    def _late(self, call: GroupCall, missing: tuple[int, ...]) -> CollectiveTimeout:
        """The error of a wait for ranks that have not made the call in time."""
        ranks = ", ".join(map(str, missing[:4])) + ", ..." * (len(missing) > 4)
        error = CollectiveTimeout(
            f"{call.name}: rank {self.rank} waited {self._runner.timeout:g} s for "
            f"{'rank' if len(missing) == 1 else 'ranks'} {ranks} of the group "
            f"{call.text}; make the call there too, with the same ranks, or raise "
            f"the timeout of the communicator ({OF_DEFAULT})",
            rank=self.rank,
            collective=call.name,
            missing=missing,
        )
        return with_hint(error)
