"""The processes of a job that are alive, as each of them detects it.

A rank detects by itself the end of processes on its host. For other hosts it uses the
store of the job: each process holds a lease of a key there, which is deleted when the
process ends or its host cannot be reached; each world on several hosts reports there
the ranks that leave it, and its failures.
"""

import json
import os
import secrets
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread
from typing import Any
from weakref import WeakValueDictionary

from collalgo._kernels.engine.transport.composite import Composite
from collalgo.base.finalizers import Lock
from collalgo.base.threads import start
from collalgo.bootstrap.failure_agreement import FailureAgreement
from collalgo.bootstrap.liveness_check import LivenessWatch, NoLivenessCheck
from collalgo.bootstrap.pending_join import PendingJoin, joined_twice
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.protocol import (
    ABSENT,
    Change,
    KeyValueStore,
    PendingValue,
    StoreError,
)
from collalgo.errors import BootstrapError

#: Seconds of the lease of a process. The embedded store ends it with the connection, so
#: it need not be short; a long one outlasts calls that hold the interpreter.
LEASE_SECONDS = 3600.0

#: The identity of this process, also among those with its number on other hosts.
_PROCESS = secrets.token_hex(8)


class Membership:
    """The processes of a job, as one of them sees them.

    Parameters
    ----------
    rank
        The rank of this process in the job.
    store_rank
        The rank whose process holds the store; None if the launcher does.
    liveness
        Detects the end of a process that may not have registered in the store.

    Attributes
    ----------
    peer_died : bool
        Whether a call has failed because a process has ended or its host was lost.
    has_failed : bool
        Whether a call has failed, so that messages of it may be under way.
    all_have_left : bool
        Whether all processes have left all worlds, so that none waits for another.
    store_is_late : bool
        Whether the store has once not answered in time.
    liveness : LivenessWatch
        Detects the end of processes until all of them have joined the first world.
    """

    store: KeyValueStore
    peer_died = has_failed = all_have_left = False
    store_is_late = False

    def __init__(
        self,
        rank: int,
        store_rank: int | None = 0,
        liveness: LivenessWatch | None = None,
    ):
        self.rank = rank
        self.store_rank = store_rank
        self.liveness = liveness or NoLivenessCheck()
        self._agreements: WeakValueDictionary[str, FailureAgreement] = (
            WeakValueDictionary()
        )
        self._gone: dict[int, str] = {}
        self._claimed_twice: set[int] = set()
        self._pending: dict[PendingValue, PendingJoin] = {}
        self._lock = Lock()
        self._questions: SimpleQueue[str | None] = SimpleQueue()

    def begin(self, store: Client) -> None:
        """Register this process in the store, and watch the others.

        Raises
        ------
        BootstrapError
            If another process has the same rank; it raises, too. Or if this process
            has joined the job before.
        """
        self.store = store
        self._claim(store)
        store.watch_each(
            {
                "alive/": self._alive,
                "twice/": self._twice,
                "left/": self._left,
                "last/": self._makes_last_call,
                "failed/": self._passing_on(FailureAgreement.failed),
                "decision/": self._passing_on(FailureAgreement.decided),
                "waiting/": self._passing_on(FailureAgreement.compare),
                "mismatch/": self._passing_on(FailureAgreement.differ),
                "revoked/": self._passing_on(FailureAgreement.revoked),
            }
        )
        start(Thread(target=self._ask, name="collalgo questions", daemon=True))

    def _claim(self, store: KeyValueStore) -> None:
        """Set the key of the rank, which lives as long as this process."""
        lease = store.lease(LEASE_SECONDS)
        alive = f"alive/{self.rank}"
        me = f"{os.getpid()} {_PROCESS}".encode()
        if store.compare_set(alive, me, ABSENT, lease=lease).succeeded:
            return
        other = store.read(alive)
        if other is not None and other.value == me:
            raise _joined_before(self.rank)
        announce_conflict(store, self.rank)
        raise joined_twice(self.rank, self.rank)

    def joining(self, ranks: Sequence[int]) -> PendingJoin:
        """The store as processes of the job use it while they join a world."""
        return PendingJoin(self, ranks, range(len(ranks)))

    def get(self, key: str, timeout: float, joining: PendingJoin) -> bytes:
        """The value of a key, unless one of the joining processes has ended."""
        pending = self.store.expect(key)
        with self._lock:
            self._pending[pending] = joining
        try:
            joining.check()
            return self.liveness.wait(pending, timeout)
        except StoreError:
            raise
        except BootstrapError:
            entry = self.store.read(key)  # the process may have set it before its end
            if entry is None:
                self.peer_died = True
                raise
            return entry.value
        finally:
            with self._lock:
                del self._pending[pending]

    def register(
        self, name: str, transport: Composite, ranks: tuple[int, ...]
    ) -> FailureAgreement:
        """Add this process to a new world of ranks of the job."""
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
        """The first of some processes that has ended, and why; None if all live."""
        with self._lock:
            return next((each for each in self._gone.items() if each[0] in ranks), None)

    def lost(self, why: str) -> None:
        """React to the loss of the store, and so of the process that holds it."""
        if self.store_rank is not None:
            self._end(self.store_rank, f"the connection with it is lost ({why})")
            return
        with self._lock:
            agreements = list(self._agreements.values())
        for failure_agreement in agreements:
            failure_agreement.store_lost(
                f"the store of the job cannot be reached any more ({why})"
            )

    def leave(self) -> None:
        """Leave all worlds; ignore all later events of the others."""
        with self._lock:
            agreements = list(self._agreements.values())
            self._agreements.clear()
        self._questions.put(None)
        for failure_agreement in agreements:
            with suppress(ValueError):  # closed before
                failure_agreement.leave("its process has ended")

    def _end(self, rank: int, why: str) -> None:
        """Note the end of a process, and stop everything that waits for it."""
        with self._lock:
            self._gone.setdefault(rank, why)
            agreements = list(self._agreements.values())
            pending = list(self._pending.items())
        for failure_agreement in agreements:
            failure_agreement.gone(rank, why)
        for value, joining in pending:
            if error := joining.obstacle():
                value.fail(error)

    def _ask(self) -> None:
        """Send the questions of calls that wait, which must not wait for the store."""
        while (name := self._questions.get()) is not None:
            if (failure_agreement := self._agreements.get(name)) is not None:
                failure_agreement.ask()
            del failure_agreement  # it ends with its world

    def _alive(self, change: Change) -> None:
        if change.value is None:
            rank = int(change.key.partition("/")[2])
            self._end(rank, "its process ended, or its host cannot be reached")

    def _twice(self, change: Change) -> None:
        """Stop everything that waits for a rank which two processes claim to be."""
        rank = int(change.key.partition("/")[2])
        with self._lock:
            self._claimed_twice.add(rank)
            pending = list(self._pending.items())
        for value, joining in pending:
            if error := joining.obstacle():
                value.fail(error)

    def claimed_twice(self, ranks: Container[int]) -> int | None:
        """A rank that two processes claim to be; None if no rank has two."""
        with self._lock:
            return next((each for each in self._claimed_twice if each in ranks), None)

    def _left(self, change: Change) -> None:
        failure_agreement, rank = self._of_rank(change)
        if failure_agreement is not None and change.value is not None:
            failure_agreement.left(rank, **json.loads(change.value))

    def _makes_last_call(self, change: Change) -> None:
        failure_agreement, rank = self._of_rank(change)
        if failure_agreement is not None and change.value is not None:
            failure_agreement.last_calls.note(rank)

    def _of_rank(self, change: Change) -> tuple[FailureAgreement | None, int]:
        """The world and the rank of a key of both."""
        name, _, rank = change.key.partition("/")[2].rpartition(":")
        return self._agreements.get(name), int(rank)

    def _passing_on(
        self, react: Callable[[FailureAgreement, Any], None]
    ) -> Callable[[Change], None]:
        """A watcher that passes the value of a world's key on to its agreement."""

        def watcher(change: Change) -> None:
            failure_agreement = self._agreements.get(change.key.partition("/")[2])
            if failure_agreement is not None and change.value is not None:
                react(failure_agreement, json.loads(change.value))

        return watcher


def announce_conflict(store: KeyValueStore, rank: int) -> None:
    """Announce to the processes of a job that two of them claim to be a rank."""
    store.set(f"twice/{rank}", b"")


def _joined_before(me: int) -> BootstrapError:
    """The error of a process that joins its job of several hosts again."""
    return BootstrapError(
        f"rank {me} has joined this job before, and a world on several hosts cannot be "
        "joined again; keep it open, and call comm.dup() for another communicator",
        rank=me,
    )
