"""The state of an elastic job: the values that its members share, by commits."""

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from collalgo._kernels.elastic.commits import flatten_again
from collalgo.comm.communicator import Communicator
from collalgo.elastic.arguments import check_name, communicator
from collalgo.elastic.checkpoints import check_forms, read_checkpoint, write_checkpoint
from collalgo.elastic.declaration import Declaration
from collalgo.elastic.leaves import ArrayLeaf, writeable
from collalgo.elastic.snapshot import HASH_BYTES, Snapshot
from collalgo.elastic.transfer import SYNC, transfer
from collalgo.elastic.tree import check_classes, flatten, forms, has_state_dict
from collalgo.errors import CollalgoError, MismatchError

_LOG = logging.getLogger("collalgo")

#: Bytes of a revision that members exchange.
REVISION_BYTES = 8


class State:
    """Values that all members of a job share, each under a name.

    They are its attributes. ``commit`` copies them; after a failure ``restore`` goes
    back to the last commit, and ``sync`` gives all members the values of the most
    advanced one. The values are arrays of NumPy or tensors of torch, numbers and texts,
    containers of these, and objects with ``state_dict()`` and ``load_state_dict()``, as
    the modules and optimizers of torch. Arrays are restored in place.

    Parameters
    ----------
    **values
        The values by their names. They count as committed.

    Attributes
    ----------
    revision : int
        The number of commits so far, of all members together.

    Raises
    ------
    TypeError
        If a value cannot be copied, or is of a class that would not be restored: a
        subclass of a container, a number, a text or an array.
    ValueError
        If a name is that of a method or of ``revision``, or begins with ``_``.

    Examples
    --------
    >>> import numpy as np
    >>> from collalgo import elastic
    >>> state = elastic.State(weights=np.zeros(2), step=0)
    >>> state.weights += 1
    >>> state.step += 1
    >>> state.commit()
    >>> state.weights[0] = 7
    >>> state.restore()
    >>> state.weights, state.step, state.revision
    (array([1., 1.]), 1, 1)
    """

    _values: dict[str, Any]
    _committed: Snapshot
    _spare: Snapshot
    _declaration: Declaration
    _after_commit: Callable[[], None] | None

    def __init__(self, **values: Any) -> None:
        for name in values:
            check_name(name, type(self))
        own = {"_committed": Snapshot(), "_spare": Snapshot(), "_after_commit": None}
        self.__dict__.update(own, _values=values)
        self._committed.take(0, *self._whole())
        self.__dict__["_declaration"] = Declaration(self._committed.skeleton)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(
                f"the state has no value {name!r}; it has {', '.join(values)}"
            )
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._values:
            self._values[name] = value
        elif name in self.__dict__:
            self.__dict__[name] = value
        else:
            raise AttributeError(
                f"the state has no value {name!r}; pass it when the state is made: "
                f"elastic.State({name}=...)"
            )

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values})

    @property
    def revision(self) -> int:
        """The number of commits so far, of all members together."""
        return self._committed.revision

    def commit(self) -> None:
        """Copy the values; in :func:`elastic.run`, members may join or leave here.

        The copy goes into memory of its own that the last commit but one has left, so a
        failure meanwhile leaves the last commit whole.
        """
        last = self._committed
        whole = flatten_again(self._values, last.skeleton, last.arrays) or self._whole()
        self._spare.take(last.revision + 1, *whole)
        self._turn()
        if self._after_commit is not None:
            self._after_commit()

    @contextmanager
    def after_commit(self, call: Callable[[], None]) -> Iterator[None]:
        """Make a call after each commit for a while."""
        self._after_commit = call
        try:
            yield
        finally:
            self._after_commit = None

    def restore(self) -> None:
        """Go back to the values of the last commit."""
        for name, value in self._committed.value(self._live()).items():
            if has_state_dict(self._values.get(name)):
                self._values[name].load_state_dict(value)
            else:
                self._values[name] = value

    def sync(self, comm: Communicator) -> None:
        """Give all members the last commit of the most advanced one, and restore it.

        All members call it. Of members with the same revision but other values (which
        only a fault can cause), those in the minority are named in a warning and
        corrected. If all have the same, nothing is sent; else those that have it
        broadcast a part each.

        Raises
        ------
        PeerFailed
            If a member fails meanwhile; the last commit of this one is unchanged.
        MismatchError
            If this member has made its state with other names, or arrays of other
            shapes or dtypes, than the most advanced one.
        """
        revisions, hashes, declared = self._of_all(comm, SYNC)
        newest = max(revisions)
        holders = [rank for rank, each in enumerate(revisions) if each == newest]
        right = _most_common([hashes[rank] for rank in holders])
        owners = [rank for rank in holders if hashes[rank] == right]
        if len(set(declared)) > 1:
            self._declaration.compare(comm, owners[0])
        for rank in holders if newest else ():
            if rank not in owners:
                _LOG.warning("%s; it is corrected", _differs(rank, owners[0], newest))
        if len(owners) < comm.size:
            self._take_from(comm, owners)
        self.restore()

    def _take_from(self, comm: Communicator, owners: list[int]) -> None:
        """Give all members the last commit of the owners."""
        has_it = comm.rank in owners
        transfer(comm, self._committed if has_it else self._spare, owners)
        if not has_it:
            self._turn()

    def verify(self, comm: Communicator) -> None:
        """Check that all members have committed the same; all of them call it.

        Raises
        ------
        MismatchError
            If a member has other values or another revision; it is named.
        """
        revisions, hashes, _ = self._of_all(comm, "verify")
        right = _most_common(list(zip(revisions, hashes, strict=True)))
        other = [
            rank
            for rank, each in enumerate(zip(revisions, hashes, strict=True))
            if each != right
        ]
        if other:
            root = next(rank for rank in range(comm.size) if rank not in other)
            words = _differs(other[0], root, right[0])
            missing = tuple(other)
            raise MismatchError(words, rank=comm.rank, missing=missing)

    def checkpoint(self, path: str | Path) -> None:
        """Write the last commit to a file, atomically and with a hash.

        Raises
        ------
        OutputError
            If it cannot be written, or another program wrote the existing file.
        """
        write_checkpoint(path, self._committed)

    def load(self, path: str | Path) -> None:
        """Read a checkpoint, commit and restore it.

        Raises
        ------
        CollalgoError
            If the file is damaged, or has other names of values, or arrays of other
            shapes or dtypes. Objects check what they load themselves.
        """
        found = read_checkpoint(path)
        names = _names(found)
        if names != set(self._values):
            raise CollalgoError(
                f"{path} has the values {sorted(names)}, but the state "
                f"{sorted(self._values)}; make the state with the same names"
            )
        for name, part in found.skeleton[1]:
            if not has_state_dict(self._values[name]):
                check_forms(path, name, part, self._part(name)[0])
        self._spare.take(found.revision, found.skeleton, found.arrays)
        self._turn()
        self.restore()

    def _turn(self) -> None:
        """Make the spare copy the committed one."""
        self.__dict__.update(_committed=self._spare, _spare=self._committed)

    def _part(self, name: str) -> tuple[Any, list[ArrayLeaf]]:
        """The skeleton and the arrays of a present value."""
        value, where = self._values[name], f"state.{name}"
        if has_state_dict(value):
            return flatten(value.state_dict(), where)
        check_classes(value, where)
        return flatten(value, where)

    def _whole(self) -> tuple[Any, list[ArrayLeaf]]:
        """The skeleton and the arrays of all present values."""
        parts = {name: self._part(name) for name in self._values}
        skeleton = ["dict", [[name, part] for name, (part, _) in parts.items()]]
        return skeleton, [array for _, arrays in parts.values() for array in arrays]

    def _live(self) -> list[ArrayLeaf | None]:
        """For each committed array the present one, if it can be restored in place.

        Objects get arrays of their own: what they load they may keep.
        """
        found: list[ArrayLeaf | None] = []
        for name, committed in self._committed.skeleton[1]:
            try:
                part, arrays = self._part(name)
            except TypeError:  # which no commit would take
                part, arrays = None, []
            wanted = list(forms(committed))
            fits = list(forms(part)) == wanted
            fits = fits and not has_state_dict(self._values[name])
            found += map(writeable, arrays) if fits else [None] * len(wanted)
        return found

    def _of_all(
        self, comm: Communicator, call: str
    ) -> tuple[list[int], list[bytes], list[bytes]]:
        """The revisions, the hashes and the digests of declarations of all members."""
        revision = self.revision.to_bytes(REVISION_BYTES, "little")
        mine = revision + self._committed.hash() + self._declaration.digest()
        array = np.frombuffer(mine, np.uint8).copy()
        runner = communicator(comm, call)._runner
        rows = [row.tobytes() for row in runner.exchange_as_call(array, call)]
        revisions = [int.from_bytes(row[:REVISION_BYTES], "little") for row in rows]
        hashes = [row[REVISION_BYTES:][:HASH_BYTES] for row in rows]
        return revisions, hashes, [row[REVISION_BYTES + HASH_BYTES :] for row in rows]


def _names(snapshot: Snapshot) -> set[str]:
    """The names of the values of a snapshot."""
    match snapshot.skeleton:
        case ["dict", items]:
            return {name for name, _ in items}
    return set()


def _most_common(found: list[Any]) -> Any:
    """The value of most members; of equally many the first."""
    return Counter(found).most_common(1)[0][0]


def _differs(rank: int, root: int, revision: int) -> str:
    return (
        f"the state of rank {rank} differs from that of rank {root} at revision "
        f"{revision}: its memory or its computation is faulty, or the state holds what "
        "is not the same on all members"
    )
