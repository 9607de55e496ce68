"""Groups: ordered sets of ranks, by their numbers in the world."""

from collections.abc import Sequence
from typing import Any

from collalgo.integrations.as_mpi4py.constants import NUMBERS, PROC_NULL, UNDEFINED
from collalgo.integrations.as_mpi4py.errors import fail
from collalgo.integrations.as_mpi4py.handles import Handle, State, constant

Range = tuple[int, int, int]


class GroupState(State):
    """The ranks of a group.

    Attributes
    ----------
    ranks : tuple of int
        Their numbers in the world.
    me : int
        The number of this process in the world.
    """

    def __init__(self, ranks: Sequence[int], me: int):
        super().__init__()
        self.ranks, self.me = tuple(ranks), me


class Group(Handle):
    """An ordered set of ranks; ``MPI.Group``."""

    null_name, error_name = "GROUP_NULL", "ERR_GROUP"

    def Get_size(self) -> int:
        """The number of ranks."""
        return len(self.state.ranks)

    def Get_rank(self) -> int:
        """The rank of this process in the group; UNDEFINED if it is not in it."""
        ranks, me = self.state.ranks, self.state.me
        return ranks.index(me) if me in ranks else UNDEFINED

    size, rank = property(Get_size), property(Get_rank)

    def Translate_ranks(
        self, ranks: Sequence[int] | None = None, group: "Group | None" = None
    ) -> list[int]:
        """The ranks in another group, by default the world, of ranks of this one."""
        own = self.state.ranks
        asked = range(len(own)) if ranks is None else ranks
        world = [PROC_NULL if r == PROC_NULL else own[self._checked(r)] for r in asked]
        if group is None:
            return world
        places = {rank: place for place, rank in enumerate(group.state.ranks)}
        places[PROC_NULL] = PROC_NULL
        return [places.get(rank, UNDEFINED) for rank in world]

    def Compare(self, group: "Group") -> int:
        """IDENT, SIMILAR if only the order differs, or UNEQUAL."""
        mine, other = self.state.ranks, group.state.ranks
        if mine == other:
            return NUMBERS["IDENT"]
        same = sorted(mine) == sorted(other)
        return NUMBERS["SIMILAR" if same else "UNEQUAL"]

    def _of(self, ranks: Sequence[int]) -> Any:
        """A group of some ranks of the world."""
        if not ranks:
            return type(self)(GROUP_EMPTY)
        return type(self).of_state(GroupState(ranks, self.state.me))

    def Dup(self) -> Any:
        """A copy."""
        return type(self).of_state(GroupState(self.state.ranks, self.state.me))

    @classmethod
    def Union(cls, group1: "Group", group2: "Group") -> Any:
        """The ranks of the first group, then the others of the second."""
        first, second = group1.state.ranks, group2.state.ranks
        chosen = group1 if first else group2
        return chosen._of([*first, *(rank for rank in second if rank not in first)])

    @classmethod
    def Intersection(cls, group1: "Group", group2: "Group") -> Any:
        """The ranks of the first group that are in the second."""
        second = group2.state.ranks
        return group1._of([rank for rank in group1.state.ranks if rank in second])

    Intersect = Intersection

    @classmethod
    def Difference(cls, group1: "Group", group2: "Group") -> Any:
        """The ranks of the first group that are not in the second."""
        second = group2.state.ranks
        return group1._of([rank for rank in group1.state.ranks if rank not in second])

    def Incl(self, ranks: Sequence[int]) -> Any:
        """The group of some ranks, in the order given."""
        chosen = [self.state.ranks[self._checked(rank)] for rank in ranks]
        if len(set(chosen)) != len(chosen):
            fail("ERR_RANK", f"ranks {list(ranks)} name a rank twice")
        return self._of(chosen)

    def Excl(self, ranks: Sequence[int]) -> Any:
        """The group without some ranks."""
        left_out = {self._checked(rank) for rank in ranks}
        own = self.state.ranks
        return self._of([own[i] for i in range(len(own)) if i not in left_out])

    def Range_incl(self, ranks: Sequence[Range]) -> Any:
        """The group of some ranges: first and last rank, and the step."""
        return self.Incl(self._ranges(ranks))

    def Range_excl(self, ranks: Sequence[Range]) -> Any:
        """The group without some ranges."""
        return self.Excl(self._ranges(ranks))

    @staticmethod
    def _ranges(ranges: Sequence[Range]) -> list[int]:
        found: list[int] = []
        for first, last, step in ranges:
            if step == 0:
                fail("ERR_ARG", f"range {(first, last, step)} has a step of 0")
            found += range(first, last + (1 if step > 0 else -1), step)
        return found

    def _checked(self, rank: int) -> int:
        if not 0 <= rank < len(self.state.ranks):
            fail("ERR_RANK", f"rank {rank} is not in a group of {self.Get_size()}")
        return rank

    def Free(self) -> None:
        """Free the group."""
        if self is GROUP_EMPTY:
            fail("ERR_GROUP", "GROUP_EMPTY cannot be freed")
        _ = self.state
        self._state = None


GROUP_NULL = constant("GROUP_NULL", Group())
GROUP_EMPTY = constant("GROUP_EMPTY", Group.of_state(GroupState((), -1)))
