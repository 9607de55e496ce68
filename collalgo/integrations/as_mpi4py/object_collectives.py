"""The collectives on objects of Python, which move as pickles."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from collalgo.integrations.as_mpi4py import object_exchange
from collalgo.integrations.as_mpi4py.collectives import is_root
from collalgo.integrations.as_mpi4py.errors import raises_mpi_exceptions
from collalgo.integrations.as_mpi4py.memory import Bytes
from collalgo.integrations.as_mpi4py.ops import SUM, combined
from collalgo.integrations.as_mpi4py.pickling import PICKLE, pickles_of

Method = TypeVar("Method", bound=Callable[..., Any])


def _locked(method: Method) -> Method:
    """Make a call of several steps by one thread at a time."""

    @wraps(method)
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        with self.state.lock(method.__name__):
            return method(self, *arguments, **named)

    return raises_mpi_exceptions(call)  # type: ignore[return-value]


class ObjectCollectives:
    """The collectives on objects; a mixin of communicators."""

    state: Any

    @_locked
    def barrier(self) -> None:
        """Wait until every rank has made this call."""
        self.state.engine.barrier()

    @_locked
    def bcast(self, obj: Any, root: int = 0) -> Any:
        """Give every rank the object of the root; a copy at the root, too."""
        packed = PICKLE.dumps(obj) if is_root(self, root) else None
        return _loaded(object_exchange.broadcast(self.state.engine, packed, root))

    @_locked
    def gather(self, sendobj: Any, root: int = 0) -> list[Any] | None:
        """Gather the objects of all ranks into a list at the root."""
        is_root(self, root)
        found = object_exchange.gather(self.state.engine, PICKLE.dumps(sendobj), root)
        return None if found is None else [_loaded(each) for each in found]

    @_locked
    def scatter(self, sendobj: Sequence[Any] | None, root: int = 0) -> Any:
        """Scatter: give every rank its object of the root's list."""
        packed = None
        if is_root(self, root):
            packed = self._dumped(sendobj)
        return _loaded(object_exchange.scatter(self.state.engine, packed, root))

    def _dumped(self, objects: Any) -> list[bytes]:
        """The pickles of an object for each rank."""
        found = pickles_of(objects, self.state.size)
        if len(found) != self.state.size:
            raise ValueError(
                f"{len(found)} objects are given for {self.state.size} ranks"
            )
        return found

    @_locked
    def allgather(self, sendobj: Any) -> Any:
        """List the objects of all ranks, at every rank."""
        found = object_exchange.allgather(self.state.engine, PICKLE.dumps(sendobj))
        return [_loaded(each) for each in found]

    @_locked
    def alltoall(self, sendobj: Sequence[Any]) -> Any:
        """Exchange objects: the one at index i goes to rank i."""
        found = self.state.engine.alltoall_objects(self._dumped(sendobj))
        return [PICKLE.loads(each) for each in found]

    def reduce(self, sendobj: Any, op: Any = SUM, root: int = 0) -> Any:
        """Combine the objects of all ranks at the root, in the order of the ranks."""
        found = self.gather(sendobj, root)
        return None if found is None else combined(op, found)

    def allreduce(self, sendobj: Any, op: Any = SUM) -> Any:
        """Combine the objects of all ranks, in the order of the ranks."""
        return combined(op, self.allgather(sendobj))

    def scan(self, sendobj: Any, op: Any = SUM) -> Any:
        """Combine the objects of the ranks from 0 up to this one."""
        return combined(op, self.allgather(sendobj)[: self.state.rank + 1])

    def exscan(self, sendobj: Any, op: Any = SUM) -> Any:
        """Combine the objects of the ranks before this one; None on rank 0."""
        found = self.allgather(sendobj)[: self.state.rank]
        return combined(op, found) if found else None


def _loaded(packed: Bytes) -> Any:
    """The object of a pickle."""
    return PICKLE.loads(packed.data)
