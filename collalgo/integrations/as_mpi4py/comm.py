"""Communicators: the interface that all share."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from collalgo.integrations.as_mpi4py import errors
from collalgo.integrations.as_mpi4py.arranging import CanArrange
from collalgo.integrations.as_mpi4py.attributes import Attributes
from collalgo.integrations.as_mpi4py.buffering import HasBuffer
from collalgo.integrations.as_mpi4py.comm_state import CommState, context_of
from collalgo.integrations.as_mpi4py.constants import (
    MAX_TAG,
    NUMBERS,
    PROC_NULL,
    UNDEFINED,
)
from collalgo.integrations.as_mpi4py.errhandlers import HasErrhandler
from collalgo.integrations.as_mpi4py.errors import fail, raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.groups import Group, GroupState
from collalgo.integrations.as_mpi4py.handles import CONSTANTS, Handle, constant
from collalgo.integrations.as_mpi4py.infos import INFO_NULL, Info
from collalgo.integrations.as_mpi4py.names import Named
from collalgo.integrations.as_mpi4py.object_collectives import ObjectCollectives
from collalgo.integrations.as_mpi4py.object_messages import ObjectMessages
from collalgo.integrations.as_mpi4py.operations import Operation
from collalgo.integrations.as_mpi4py.partitioned import PartitionedMessages
from collalgo.integrations.as_mpi4py.process import PROCESS
from collalgo.integrations.as_mpi4py.reductions import Collectives
from collalgo.integrations.as_mpi4py.requests import Request

#: The key of an info that names a kind of resource.
RESOURCE = "mpi_hw_resource_type"


class Comm(
    Named,
    Attributes,
    HasErrhandler,
    HasBuffer,
    Collectives,
    ObjectCollectives,
    ObjectMessages,
    PartitionedMessages,
    Handle,
):
    """Ranks that call each other; ``MPI.Comm``."""

    null_name, error_name = "COMM_NULL", "ERR_COMM"
    predefined_attributes = {  # noqa: RUF012
        NUMBERS["TAG_UB"]: MAX_TAG,
        NUMBERS["IO"]: PROC_NULL,
        NUMBERS["WTIME_IS_GLOBAL"]: False,
        NUMBERS["UNIVERSE_SIZE"]: lambda: PROCESS.world.size,
        NUMBERS["APPNUM"]: 0,
        NUMBERS["LASTUSEDCODE"]: errors.last_used_code,
    }

    @classmethod
    def _class_of(cls, state: Any) -> Any:
        if state is None:
            return cls
        return state.topology.handle_class if state.topology else state.handle_class

    # ---- what it is

    def Get_size(self) -> int:
        """The number of ranks."""
        return int(self.state.size)

    def Get_rank(self) -> int:
        """The rank of this process."""
        return int(self.state.rank)

    def Get_group(self) -> Any:
        """The group of its ranks."""
        return Group.of_state(GroupState(self.state.ranks, PROCESS.world.rank))

    size, rank, group = property(Get_size), property(Get_rank), property(Get_group)

    def Is_inter(self) -> bool:
        """Whether it consists of two groups of ranks, which call each other."""
        return bool(self.state.is_inter)

    def Is_intra(self) -> bool:
        """Whether all its ranks are in one group."""
        return not self.Is_inter()

    def Get_topology(self) -> int:
        """How its ranks are arranged: CART, GRAPH, DIST_GRAPH or UNDEFINED."""
        topology = self.state.topology
        return UNDEFINED if topology is None else topology.number

    is_inter, is_intra = property(Is_inter), property(Is_intra)
    topology = property(Get_topology)
    is_topo = property(lambda self: self.Get_topology() != UNDEFINED)

    def Compare(self, comm: "Comm") -> int:
        """IDENT, CONGRUENT if only the context differs, SIMILAR, or UNEQUAL."""
        mine, other = self.state, comm.state
        if mine is other:
            return NUMBERS["IDENT"]
        if (mine.ranks, mine.remote) == (other.ranks, other.remote):
            return NUMBERS["CONGRUENT"]
        same = all(
            sorted(a) == sorted(b)
            for a, b in ((mine.ranks, other.ranks), (mine.remote, other.remote))
        )
        return NUMBERS["SIMILAR" if same else "UNEQUAL"]

    def Get_info(self) -> Any:
        """Its hints."""
        return Info.Create(self.state.info)

    def Set_info(self, info: Any) -> None:
        """Set its hints, which no call needs."""
        self.state.info = dict(info.items())

    info = property(Get_info, Set_info)

    # ---- others made of it

    def _child(
        self,
        cls: Any,
        ranks: Sequence[int],
        *parts: object,
        topology: Any = None,
        by_all: bool = True,
    ) -> Any:
        """A communicator of some ranks of the world; null where it has not this one."""
        context = self.state.child_context(*parts, by_all=by_all)
        if PROCESS.world.rank not in ranks:
            return Intracomm()
        state = CommState(context, ranks, topology)
        state.connect()
        return cls.of_state(state)

    @raises_mpi_exceptions
    def Dup(self, info: Any = None) -> Any:
        """A communicator of the same ranks, with the attributes."""
        state = self.state
        made = self._child(type(self), state.ranks, "dup", topology=state.topology)
        made.state.info = dict(state.info if info is None else info.items())
        self.copy_attributes(made)
        return made

    def Dup_with_info(self, info: Any) -> Any:
        """As :meth:`Dup`, with other hints."""
        return self.Dup(info or INFO_NULL)

    def Clone(self) -> Any:
        """As :meth:`Dup`."""
        return self.Dup()

    def Idup(self, info: Any = None) -> Any:
        """As :meth:`Dup`, with a completed request."""
        return self.Dup(info), Request.of(Operation())

    Idup_with_info = Idup

    @raises_mpi_exceptions
    def Create(self, group: Any) -> Any:
        """A communicator of a group of its ranks; all ranks call."""
        ranks = group.state.ranks
        self._check_members(ranks)
        return self._child(Intracomm, ranks, "create", ranks)

    def _check_members(self, ranks: Sequence[int]) -> None:
        outside = set(ranks) - set(self.state.ranks)
        if outside:
            fail("ERR_GROUP", f"ranks {sorted(outside)} of the world are not in it")

    @raises_mpi_exceptions
    def Split(self, color: int = 0, key: int = 0) -> Any:
        """Communicators of the ranks with the same color, ordered by key."""
        state = self.state
        mine = np.array([color, key], np.int64)
        everyone = state.engine.allgather(mine).tolist()
        members = sorted(
            (row[1], place) for place, row in enumerate(everyone) if row[0] == color
        )
        ranks = (
            [] if color == UNDEFINED else [state.ranks[place] for _, place in members]
        )
        return self._child(Intracomm, ranks, "split", color)

    @raises_mpi_exceptions
    def Split_type(self, split_type: int, key: int = 0, info: Any = INFO_NULL) -> Any:
        """Communicators of the ranks on one host; other kinds are not known."""
        resource = info.get(RESOURCE) if info else None
        kinds = ("COMM_TYPE_HW_GUIDED", "COMM_TYPE_RESOURCE_GUIDED")
        by_resource = split_type in [NUMBERS[kind] for kind in kinds]
        shared = split_type == NUMBERS["COMM_TYPE_SHARED"] or (
            by_resource and resource == "mpi_shared_memory"
        )
        if not shared:
            return self.Split(UNDEFINED, key)
        hosts = PROCESS.world.hosts
        return self.Split(hosts[PROCESS.world.rank], key)

    def Free(self) -> None:
        """Free the communicator, with its attributes."""
        state = self.state
        if state.predefined:
            fail("ERR_COMM", f"{state.predefined} cannot be freed")
        self.delete_attributes()
        self._state = None
        state.close()

    def Disconnect(self) -> None:
        """As :meth:`Free`."""
        self.Free()

    def Abort(self, errorcode: int = 0) -> None:
        """End this process; calls of the other ranks fail, and so does the job."""
        PROCESS.abort(errorcode)

    # ---- failures

    def Revoke(self) -> None:
        """Make all calls of its ranks fail."""
        self.state.engine.revoke()

    def Is_revoked(self) -> bool:
        """Whether calls fail as a rank is gone, or has revoked it."""
        return bool(self.state.engine.closed)


class Intracomm(CanArrange, Comm):
    """Ranks of one group; ``MPI.Intracomm``."""

    @classmethod
    def _fits(cls, handle: Any) -> bool:
        return super()._fits(handle) and not (handle and handle.Is_inter())

    @raises_mpi_exceptions
    def Create_group(self, group: Any, tag: int = 0) -> Any:
        """A communicator of a group of its ranks; only these call."""
        ranks = group.state.ranks
        self._check_members(ranks)
        return self._child(Intracomm, ranks, "group", ranks, tag, by_all=False)

    @classmethod
    def Create_from_group(
        cls,
        group: Any,
        stringtag: str = "",
        info: Any = INFO_NULL,
        errhandler: Any = None,
    ) -> Any:
        """A communicator of a group of the world; only its ranks call."""
        ranks = group.state.ranks
        world = CONSTANTS["COMM_WORLD"]
        made = world._child(cls, ranks, "from group", ranks, stringtag, by_all=False)  # type: ignore[attr-defined]
        if made and info:
            made.Set_info(info)
        if made and errhandler is not None:
            made.Set_errhandler(errhandler)
        return made


CommState.handle_class = Intracomm
COMM_NULL = constant("COMM_NULL", Comm())
COMM_WORLD = constant("COMM_WORLD", Intracomm())
COMM_SELF = constant("COMM_SELF", Intracomm())


def connect_world() -> None:
    """Join the world, and give the communicators that every program has their ranks."""
    world = PROCESS.start()
    ranks = {"COMM_WORLD": range(world.size), "COMM_SELF": [world.rank]}
    for handle, (name, members) in zip(
        (COMM_WORLD, COMM_SELF), ranks.items(), strict=True
    ):
        handle._state = CommState(context_of(name), members)
        handle._state.predefined = name
    PROCESS.last_calls.append(COMM_SELF.delete_attributes)
