"""The communicators of an elastic job: one for each epoch of its rendezvous."""

import time
from contextlib import suppress
from math import inf
from typing import Protocol

from collalgo.base.finalizers import Lock
from collalgo.bootstrap.connect import connect as connect_group, without_mpi
from collalgo.bootstrap.context import JOIN_TIMEOUT, Context
from collalgo.bootstrap.exchange import StoreExchange
from collalgo.bootstrap.former_world import FormerWorld
from collalgo.bootstrap.store.job_keys import ROUND
from collalgo.bootstrap.store.protocol import (
    KeyValueStore,
    PendingValue,
    StoreError,
)
from collalgo.comm.communicator import Communicator
from collalgo.elastic.epoch_store import EpochStore
from collalgo.elastic.exclusion import exclusions
from collalgo.elastic.gathering import Gathering
from collalgo.elastic.held_contexts import HeldContexts
from collalgo.elastic.interface import Membership, MembershipChange, Rendezvous
from collalgo.elastic.lost_members import report_lost
from collalgo.elastic.rehearsal import rehearse
from collalgo.errors import BootstrapError, RendezvousError

#: Seconds in which a lost member is announced, and between two checks for that.
NOTICE_SECONDS, NOTICE_PAUSE = 10.0, 0.01

#: The key that exists once the members of an epoch are on several hosts.
SEVERAL_HOSTS = "epoch/several hosts"


class RendezvousWithStore(Rendezvous, Protocol):
    """A rendezvous with a store, over which the members of an epoch connect."""

    @property
    def store(self) -> KeyValueStore: ...

    @property
    def where(self) -> str: ...


def connect(
    rendezvous: RendezvousWithStore, timeout: float | None = None
) -> Communicator:
    """Wait until this process is a member of an epoch, and connect with the others.

    Members of an epoch that begins later call ``comm.grow()`` on what this returns.

    Parameters
    ----------
    rendezvous
        Their rendezvous; see :func:`rendezvous`.
    timeout
        Seconds to wait; by default the ``join_timeout`` of the settings.

    Raises
    ------
    RendezvousError
        If there are too few members in time, or the store cannot be reached.
    RendezvousClosed
        If the job has ended.
    """
    return Communicator(Epochs(rendezvous).grow(timeout))


def pending(comm: Communicator) -> int:
    """The number of waiting processes that ``comm.grow()`` would admit."""
    newcomers = comm._newcomers
    return 0 if newcomers is None else newcomers.pending()


class EpochEnded(BootstrapError):
    """The epoch has ended before its members were connected."""


class Epochs:
    """The epochs of a job in one process, and the newcomers of its contexts.

    Parameters
    ----------
    rendezvous
        Their rendezvous.
    """

    def __init__(self, rendezvous: RendezvousWithStore):
        self.rendezvous = rendezvous
        self._present: tuple[Membership, Context] | None = None
        self._contexts = HeldContexts()
        self._gathering = Gathering(rendezvous.change)
        self._waits: set[PendingValue] = set()
        self._lock = Lock()
        rendezvous.watch(self._react)

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members of the present epoch, by rank."""
        return self._present[0].members if self._present else ()

    @property
    def lost(self) -> tuple[str, ...]:
        """The names of the members of the present epoch that are known to be lost."""
        change = self.rendezvous.change()
        return change.lost if change else ()

    def exclusions(self) -> dict[str, str]:
        """The excluded members, with the reasons; empty if the store is not reached."""
        with suppress(BootstrapError):
            return exclusions(self.rendezvous.store)
        return {}

    @property
    def closed(self) -> str | None:
        """The reason why the job is closed; None if it is open."""
        change = self.rendezvous.change()
        return change.closed if change else None

    def pending(self) -> int:
        """The number of waiting processes that the next epoch would admit."""
        return self.rendezvous.waiting()

    def has_changed(self) -> bool:
        """Whether this rank knows a reason for a new epoch.

        No process can join a job that is closed, which continues to its end.
        """
        if self._contexts.due < inf:  # seldom
            self._contexts.release_if_calm()
        change = self._gathering.note_change()
        if change is None or not (change.is_failure or change.waiting):
            return False
        if change.is_failure:
            return True
        return change.closed is None and (change.is_full or self._gathering.is_over())

    def end(self, reason: str) -> None:
        """Refuse further members, and leave: the job is over."""
        with suppress(StoreError):  # the holder of the store may have left
            self.rendezvous.close(reason)
        self.rendezvous.shutdown()

    def grow(self, timeout: float | None) -> Context:
        """Connect the surviving ranks and the waiting processes as a new world."""
        before = self._present
        if before is None:
            self._prepare()
        else:
            store = self.rendezvous.store
            report_lost(store, *before, lambda: self._present is not before)
        while True:
            member = self.rendezvous.join(timeout)
            with suppress(EpochEnded):
                context = self._connected(member)
                context.newcomers = self
                self._contexts.add(context)
                self._present = member, context
                self._react(self.rendezvous.change())  # it may have ended meanwhile
                return context

    def _prepare(self) -> None:
        """Load what members of a job that runs need, before they wait for this one."""
        store = self.rendezvous.store
        with suppress(StoreError):  # which they raise again
            if store.read(ROUND) is not None:
                are_several = store.read(SEVERAL_HOSTS) is not None
                rehearse(several_hosts=are_several)

    def _former(self) -> FormerWorld | None:
        """The world of the last epoch that this member has connected for."""
        if self._present is None or self._present[1].has_left:
            return None
        member, context = self._present
        return FormerWorld(str(member.epoch), context)

    def _connected(self, member: Membership) -> Context:
        """Connect with the other members of an epoch."""
        store, epoch = self._store(member), f"epoch/{member.epoch}/"
        exchange = StoreExchange(store, member.rank, member.size, JOIN_TIMEOUT, epoch)
        engine = without_mpi(None, member.rank)
        try:
            found = connect_group(
                exchange, engine, JOIN_TIMEOUT, self, self._former(), epoch
            )
        except BootstrapError as error:
            if isinstance(error, RendezvousError) or not self.fails_soon():
                raise
            raise EpochEnded(str(error)) from error
        if found.end_job is not None and member.rank == 0:
            self.rendezvous.store.post(SEVERAL_HOSTS, b"")
        return found

    def _store(self, member: Membership) -> EpochStore:
        """The store of the job, for the members of an epoch to connect."""
        found = self.rendezvous
        name = f"the store of epoch {member.epoch} at {found.where}"
        checks = self.wait, self.check
        return EpochStore(lambda: found.store, name, *checks, JOIN_TIMEOUT)

    def fails_soon(self) -> bool:
        """Whether the epoch has failed, also if its notice arrives later."""
        end = time.monotonic() + NOTICE_SECONDS
        while not self._has_failed() and time.monotonic() < end:
            time.sleep(NOTICE_PAUSE)
        return self._has_failed()

    def check(self) -> None:
        """Raise BootstrapError if the epoch has ended."""
        if self._has_failed():
            raise EpochEnded("the epoch has lost a member")

    def _has_failed(self) -> bool:
        change = self.rendezvous.change()
        return change is not None and change.is_failure

    def wait(self, pending: PendingValue, timeout: float) -> bytes:
        """Wait for a value that a member sets, unless the epoch ends."""
        with self._lock:
            self._waits.add(pending)
        try:
            self.check()
            return pending.result(timeout)
        finally:
            with self._lock:
                self._waits.discard(pending)

    def _react(self, change: MembershipChange | None) -> None:
        """Cancel all waits for members, once an epoch has failed.

        The time begins in which processes that wait are joined by others: from what is
        known now, as the change told may be over.
        """
        self._gathering.note_change()
        if change is None or not change.is_failure:
            return
        with self._lock:
            waits = list(self._waits)
        for each in waits:
            each.fail(EpochEnded("the epoch has lost a member"))
        if self._present is not None and self._present[0].epoch == change.epoch:
            with suppress(ValueError):  # closed here
                self._present[1].revoke()
