"""The collectives on objects between the two groups of an intercommunicator."""

from collections.abc import Sequence
from typing import Any

from collalgo.integrations.as_mpi4py.constants import PROC_NULL, ROOT
from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.inter_collectives import at_place
from collalgo.integrations.as_mpi4py.ops import SUM, combined
from collalgo.integrations.as_mpi4py.pickling import PICKLE, pickles_of


class InterObjects:
    """The collectives on objects; a mixin of intercommunicators."""

    state: Any

    @raises_mpi_exceptions
    def alltoall(self, sendobj: Sequence[Any]) -> list[Any]:
        """Swap objects with the other group."""
        return self._swapped(pickles_of(sendobj, len(self.state.remote)))

    def _swapped(self, sent: Sequence[bytes]) -> list[Any]:
        """The objects of the other group; some bytes go to each of its ranks."""
        state = self.state
        first, number = state.remote_place, len(state.remote)
        every: list[bytes] = [b""] * len(state.joint)
        every[first : first + number] = sent
        found = state.engine.alltoall_objects(every)[first : first + number]
        return [PICKLE.loads(each) if each else None for each in found]

    def _sent_to_root(self, obj: Any, root: int) -> list[Any]:
        number = len(self.state.remote)
        packed = b"" if root in (ROOT, PROC_NULL) else PICKLE.dumps(obj)
        return self._swapped(at_place(root, number, packed, b""))

    @raises_mpi_exceptions
    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Give every rank of the other group the object of the root."""
        return self.scatter([obj] * len(self.state.remote), root)

    @raises_mpi_exceptions
    def scatter(self, sendobj: Any, root: int = 0) -> Any:
        """Give every rank of the other group its object of the list of the root."""
        number = len(self.state.remote)
        packed = at_place(root, number, b"", b"")
        if root == ROOT:
            packed = pickles_of(sendobj, number)
        found = self._swapped(packed)
        return None if root in (ROOT, PROC_NULL) else found[root]

    @raises_mpi_exceptions
    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """List the objects of the other group at the root."""
        found = self._sent_to_root(sendobj, root)
        return found if root == ROOT else None

    @raises_mpi_exceptions
    def allgather(self, sendobj: Any) -> list[Any]:
        """List the objects of the other group."""
        return self._swapped([PICKLE.dumps(sendobj)] * len(self.state.remote))

    def reduce(self, sendobj: Any, op: Any = SUM, root: int = 0) -> Any:
        """Combine the objects of the other group at the root."""
        found = self.gather(sendobj, root)
        return None if found is None else combined(op, found)

    def allreduce(self, sendobj: Any, op: Any = SUM) -> Any:
        """Combine the objects of the other group."""
        return combined(op, self.allgather(sendobj))
