"""Who is still there: processes that die or leave, as the others hear of it.

A rank notices by itself what happens on its host. What happens on others it hears from
the store of the job: each process leases a key there, which goes when it ends or its
host is gone, and each world on several hosts tells there who leaves it and what fails.
"""

import json
from collections.abc import Container, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Lock, Thread
from weakref import WeakValueDictionary

from collalgo._kernels.engine.transport.composite import Composite
from collalgo.bootstrap.failure_agreement import FailureAgreement
from collalgo.bootstrap.store.client import Awaited, Client, StoreError
from collalgo.errors import BootstrapError


class Membership:
    """The processes of a job, as one of them sees them.

    Parameters
    ----------
    rank
        The rank of this process in the job.
    store_rank
        The rank that keeps the store; None if the launcher does.

    Attributes
    ----------
    peer_died : bool
        Whether a call has failed because a process is gone, or its host.
    """

    store: Client
    peer_died = False

    def __init__(self, rank: int, store_rank: int | None = 0):
        self.rank = rank
        self.store_rank = store_rank
        self._agreements: WeakValueDictionary[str, FailureAgreement] = (
            WeakValueDictionary()
        )
        self._gone: dict[int, str] = {}
        self._awaited: dict[Awaited, PendingJoin] = {}
        self._lock = Lock()
        self._questions: SimpleQueue[str | None] = SimpleQueue()

    def begin(self, store: Client) -> None:
        """Show that this process is there, and watch the others."""
        self.store = store
        store.set(f"alive/{self.rank}", b"", leased=True)
        store.watch("alive/", self._alive)
        store.watch("left/", self._left)
        store.watch("failed/", self._failed)
        store.watch("decision/", self._decision)
        store.watch("waiting/", self._waiting)
        store.watch("mismatch/", self._mismatch)
        Thread(target=self._ask, name="collalgo questions", daemon=True).start()

    def joining(self, ranks: Sequence[int]) -> "PendingJoin":
        """The store for processes of the job that wait for each other to join."""
        return PendingJoin(self, ranks, range(len(ranks)))

    def get(self, key: str, timeout: float, joining: "PendingJoin") -> bytes:
        """The value of a key, unless one of those who join is gone."""
        awaited = self.store.ask_for(key)
        with self._lock:
            self._awaited[awaited] = joining
        try:
            joining.check()
            return awaited.result(timeout)
        except StoreError:
            raise
        except BootstrapError:
            value = self.store.look(key)  # who is gone may have set it before
            if value is None:
                self.peer_died = True
                raise
            return value
        finally:
            with self._lock:
                del self._awaited[awaited]

    def register(
        self, name: str, transport: Composite, ranks: tuple[int, ...]
    ) -> FailureAgreement:
        """Take the place of this process in a new world of ranks of the job."""
        failure_agreement = FailureAgreement(self, name, transport, ranks)
        with self._lock:
            self._agreements[name] = failure_agreement
            gone = dict(self._gone)
        transport.comparison.ask(self._questions, name)
        for rank, why in gone.items():
            failure_agreement.gone(rank, why)
        return failure_agreement

    def is_gone(self, rank: int) -> bool:
        """Whether a process has ended, or cannot be reached."""
        return rank in self._gone

    def first_gone(self, ranks: Container[int]) -> tuple[int, str] | None:
        """Which of some processes has gone first, and why, if one has."""
        with self._lock:
            return next((each for each in self._gone.items() if each[0] in ranks), None)

    def lost(self, why: str) -> None:
        """The store cannot be reached any more, and so the process that keeps it."""
        if self.store_rank is not None:
            self._over(self.store_rank, f"the connection with it is lost ({why})")
            return
        with self._lock:
            agreements = list(self._agreements.values())
        for failure_agreement in agreements:
            failure_agreement.store_lost(
                f"the store of the job cannot be reached any more ({why})"
            )

    def leave(self) -> None:
        """Leave all worlds; what happens to the others is of no interest any more."""
        with self._lock:
            agreements = list(self._agreements.values())
            self._agreements.clear()
        self._questions.put(None)
        for failure_agreement in agreements:
            with suppress(ValueError):  # closed before
                failure_agreement.leave("its process has ended")

    def _over(self, rank: int, why: str) -> None:
        with self._lock:
            self._gone.setdefault(rank, why)
            agreements = list(self._agreements.values())
            awaited = list(self._awaited.items())
        for failure_agreement in agreements:
            failure_agreement.gone(rank, why)
        for key, joining in awaited:
            if error := joining.obstacle():
                key.fail(error)

    def _ask(self) -> None:
        """Ask for worlds whose calls wait: who waits must not, for the store."""
        while (name := self._questions.get()) is not None:
            if (failure_agreement := self._agreements.get(name)) is not None:
                failure_agreement.ask()
            del failure_agreement  # it ends with its world

    def _alive(self, key: str, value: bytes | None) -> None:
        if value is None:
            rank = int(key.partition("/")[2])
            self._over(rank, "its process ended, or its host cannot be reached")

    def _left(self, key: str, value: bytes | None) -> None:
        name, _, rank = key.partition("/")[2].rpartition("/")
        failure_agreement = self._agreements.get(name)
        if failure_agreement is not None and value is not None:
            failure_agreement.left(int(rank), **json.loads(value))

    def _failed(self, key: str, value: bytes | None) -> None:
        failure_agreement = self._agreements.get(key.partition("/")[2])
        if failure_agreement is not None and value is not None:
            failure_agreement.failed(json.loads(value))

    def _decision(self, key: str, value: bytes | None) -> None:
        failure_agreement = self._agreements.get(key.partition("/")[2])
        if failure_agreement is not None and value is not None:
            failure_agreement.judged(json.loads(value))

    def _waiting(self, key: str, value: bytes | None) -> None:
        failure_agreement = self._agreements.get(key.partition("/")[2])
        if failure_agreement is not None and value is not None:
            failure_agreement.compare(json.loads(value))

    def _mismatch(self, key: str, value: bytes | None) -> None:
        failure_agreement = self._agreements.get(key.partition("/")[2])
        if failure_agreement is not None and value is not None:
            failure_agreement.differ(json.loads(value))


class PendingJoin:
    """The store of a job for some of its processes that wait for each other to join.

    Nobody waits for who is gone.

    Parameters
    ----------
    membership
        What this process knows of the others.
    ranks
        Of the processes in the job.
    names
        What errors call them.
    """

    def __init__(
        self, membership: Membership, ranks: Sequence[int], names: Sequence[int]
    ):
        self._membership = membership
        self._ranks = tuple(ranks)
        self._name = dict(zip(ranks, names, strict=True))

    def of(self, members: Sequence[int]) -> "PendingJoin":
        """The same for some of them, which errors call as they are called here."""
        ranks = [self._ranks[member] for member in members]
        return PendingJoin(self._membership, ranks, members)

    def set(self, key: str, value: bytes) -> None:
        """Give a key a value."""
        self._membership.store.set(key, value)

    def get(self, key: str, timeout: float) -> bytes:
        """The value of a key that one of the processes is to set.

        Raises
        ------
        StoreError
            If it has none in time.
        BootstrapError
            If one of the processes is gone.
        """
        return self._membership.get(key, timeout, self)

    def check(self) -> None:
        """Raise BootstrapError if one of the processes is gone."""
        if error := self.obstacle():
            raise error

    def obstacle(self) -> BootstrapError | None:
        """Why the processes will never be complete, if one of them is gone."""
        gone = self._membership.first_gone(self._name)
        if gone is None:
            return None
        me, other = self._name[self._membership.rank], self._name[gone[0]]
        return BootstrapError(
            f"rank {me} waited for all others to join, but rank {other} is gone: "
            f"{gone[1]}",
            rank=me,
            missing=(other,),
        )
