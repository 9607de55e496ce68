"""Intercommunicators: two groups of ranks that communicate with each other."""

from collections import Counter
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import integers
from collalgo.integrations.as_mpi4py.comm import Comm, Intracomm
from collalgo.integrations.as_mpi4py.comm_state import CommState, context_of
from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.groups import Group, GroupState
from collalgo.integrations.as_mpi4py.infos import INFO_NULL
from collalgo.integrations.as_mpi4py.inter_collectives import InterCollectives
from collalgo.integrations.as_mpi4py.inter_objects import InterObjects
from collalgo.integrations.as_mpi4py.internals import next_private, private_comm
from collalgo.integrations.as_mpi4py.pickling import object_target
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.sending import finished


class InterState(CommState):
    """An intercommunicator.

    Attributes
    ----------
    joint : tuple of int
        The ranks of the world of both groups; that with the first rank comes first.
    remote_place : int
        The place of the other group in it.
    """

    is_inter = True

    def __init__(self, context: int, ranks: Sequence[int], remote: Sequence[int]):
        super().__init__(context, ranks)
        self.remote = tuple(remote)
        comes_first = min(self.ranks) < min(self.remote)
        pair = self.ranks, self.remote
        self.joint = sum(pair if comes_first else pair[::-1], ())
        self.remote_place = len(self.ranks) if comes_first else 0

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of the world that make collectives together."""
        return self.joint

    def close(self) -> None:
        """As of all communicators, with that of this group."""
        super().close()
        if self.local is not None:
            self.local.state.close()


#: The calls of Create_from_groups, by what identifies them.
_from_groups: Counter[Any] = Counter()


class Intercomm(InterCollectives, InterObjects, Comm):
    """Two groups of ranks; ``MPI.Intercomm``."""

    @classmethod
    def _fits(cls, handle: Any) -> bool:
        return super()._fits(handle) and (not handle or handle.Is_inter())

    @classmethod
    def Create_from_groups(
        cls,
        local_group: Any,
        local_leader: int,
        remote_group: Any,
        remote_leader: int,
        stringtag: str = "",
        info: Any = INFO_NULL,
        errhandler: Any = None,
    ) -> Any:
        """An intercommunicator of two groups; all their ranks call it."""
        del local_leader, remote_leader, info, errhandler
        groups = local_group.state.ranks, remote_group.state.ranks
        what = (stringtag, *sorted(groups))
        _from_groups[what] += 1
        return cls.connected(context_of(what, _from_groups[what]), *groups)

    @classmethod
    def connected(
        cls, context: int, ranks: Sequence[int], remote: Sequence[int]
    ) -> Any:
        """The intercommunicator of two groups, after they have met."""
        state = InterState(context, ranks, remote)
        state.connect()
        return cls.of_state(state)

    def Get_remote_size(self) -> int:
        """The number of ranks of the other group."""
        return len(self.state.remote)

    def Get_remote_group(self) -> Any:
        """The other group."""
        return Group.of_state(GroupState(self.state.remote, PROCESS.world.rank))

    remote_size = property(Get_remote_size)
    remote_group = property(Get_remote_group)

    @raises_mpi_exceptions
    def Merge(self, high: bool = False) -> Any:
        """A communicator of both groups; one that calls with ``high`` comes last."""
        state = self.state
        mine = state.joint.index(PROCESS.world.rank)
        found = integers.allgather(state.engine, [bool(high)])
        flags = [bool(flag) for (flag,) in found]
        order = sorted(range(len(state.joint)), key=lambda place: (flags[place], place))
        ranks = [state.joint[place] for place in order]
        assert flags[mine] == bool(high)
        context = state.child_context("merge", by_all=True)
        made = CommState(context, ranks)
        made.connect()
        return Intracomm.of_state(made)

    def _alike(self, ranks: Sequence[int], remote: Sequence[int], *parts: Any) -> Any:
        context = self.state.child_context(*parts, by_all=True)
        if PROCESS.world.rank not in ranks or not remote:
            return Intercomm()
        return type(self).connected(context, ranks, remote)

    @raises_mpi_exceptions
    def Dup(self, info: Any = None) -> Any:
        """An intercommunicator of the same groups, with the attributes."""
        made = self._alike(self.state.ranks, self.state.remote, "dup")
        if info:
            made.Set_info(info)
        self.copy_attributes(made)
        return made

    @raises_mpi_exceptions
    def Create(self, group: Any) -> Any:
        """An intercommunicator of a subset of each group; all ranks call it."""
        mine = group.state.ranks
        groups = integers.allgather(self.state.engine, mine)
        remote = groups[self.state.remote_place]
        return self._alike(mine, remote, "create")

    @raises_mpi_exceptions
    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Intercommunicators of the ranks of both groups with the same color."""
        state = self.state
        everyone = integers.allgather(state.engine, [index(color), index(key)])
        own, other = (
            [
                world
                for _, _, world in sorted(
                    (everyone[state.joint.index(world)][1], place, world)
                    for place, world in enumerate(ranks)
                    if color >= 0 and everyone[state.joint.index(world)][0] == color
                )
            ]
            for ranks in (state.ranks, state.remote)
        )
        return self._alike(own, other, "split", color)


@raises_mpi_exceptions
def create_intercomm(
    self: Any, local_leader: int, peer_comm: Any, remote_leader: int, tag: int = 0
) -> Any:
    """An intercommunicator of this one and another; the leaders share a third."""
    state = self.state
    context = state.child_context("inter", by_all=True)
    told = None
    if state.rank == local_leader:
        peer = private_comm(peer_comm)
        told = _swapped(peer, [signed(context), *state.ranks], remote_leader, tag)
    other, *remote = integers.broadcast(state.engine, told, local_leader)
    return Intercomm.connected(
        context_of(*sorted((signed(context), other))), state.ranks, remote
    )


def signed(context: int) -> int:
    """The number of a communicator as an integer of 64 bits with a sign."""
    return context - (context >> 63 << 64)


def _swapped(peer: Any, values: Sequence[int], leader: int, tag: int) -> list[int]:
    """The integers of the other leader, to whom these go."""
    received = peer.receive_bytes(leader, tag, object_target, finish=integers.unpacked)
    data = np.frombuffer(integers.packed(values), np.uint8)
    finished(peer.send_bytes(data, leader, tag))
    found: list[int] = finished(received)
    return found


def private_inter(comm: Any) -> tuple[Any, int, Any, bool]:
    """As ``next_private``, with a communicator of this group, and if it comes first."""
    state = comm.state
    if state.local is None:
        local = CommState(context_of(state.context, "local", state.ranks), state.ranks)
        local.connect()
        state.local = Intracomm.of_state(local)
    private, tag = next_private(comm)
    return private, tag, state.local, state.remote_place > 0


InterState.handle_class = Intercomm
NULL = Intercomm()
Intracomm.Create_intercomm = create_intercomm  # type: ignore[attr-defined]
Comm.Get_parent = classmethod(lambda _cls: NULL)  # type: ignore[attr-defined]
