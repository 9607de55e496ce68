"""A rendezvous over a key-value store: a thread that runs the rounds of a process."""

import logging
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Condition, Thread
from time import monotonic

from collalgo.base.threads import start
from collalgo.bootstrap.store.job_keys import CLOSED, COMMON, LEADER
from collalgo.bootstrap.store.protocol import (
    ABSENT,
    KeyValueStore,
    LeaseExpired,
    StoreError,
)
from collalgo.elastic.documents import Closed, encoded
from collalgo.elastic.events import (
    Action,
    Command,
    Delete,
    Elapsed,
    Event,
    ListProcesses,
    Seen,
    Write,
)
from collalgo.elastic.exclusion import exclude, readmit
from collalgo.elastic.history import note_epoch
from collalgo.elastic.interface import Membership, MembershipChange
from collalgo.elastic.link import Connect, HeldStore, StoreLink
from collalgo.elastic.obstacles import obstacle, too_late
from collalgo.elastic.participant import Participant, Phase
from collalgo.elastic.rounds import counts_time, step
from collalgo.elastic.schema import MOST_CHARACTERS, Member, new_token
from collalgo.elastic.settings import Settings
from collalgo.elastic.views import change_of, membership_of

_LOG = logging.getLogger("collalgo")

#: Seconds between two measurements of the time; the first in a process that acts by the
#: time, or whose lease may have ended.
QUICK_TICK, TICK = 0.05, 0.25

#: Seconds after which an action is repeated whose effect was not seen, or that failed.
RETRY_SECONDS, FAILED_SECONDS = 1.0, 0.1


class StoreRendezvous:
    """A :class:`~.interface.Rendezvous` over a store that others share.

    Parameters
    ----------
    connect
        Connects with the store of the job; its argument is called if that is lost.
    where
        The name of the store and the job in errors.
    settings
        The settings of the job.
    name
        The name of this node, the same whenever it is started.
    held
        The store, if this process may hold it: it is closed at the end, once the others
        have left or after ``settings.silence`` seconds.

    Raises
    ------
    ValueError
        If the name is empty or too long.
    RendezvousError
        If the store is not reached in ``settings.store_timeout`` seconds.
    """

    def __init__(
        self,
        connect: Connect,
        where: str,
        settings: Settings,
        name: str,
        held: HeldStore | None = None,
    ):
        if not 0 < len(name) <= MOST_CHARACTERS:
            raise ValueError(
                f"a name of {len(name)} characters; need 1 to {MOST_CHARACTERS}"
            )
        self._settings, self.where = settings, where
        self._state = Participant(Member(name, new_token()), settings)
        self._events: SimpleQueue[Event | Exception | None] = SimpleQueue()
        self._changed = Condition()
        self._failure: Exception | None = None
        self._is_joining = False
        self._watchers: list[Callable[[MembershipChange], None]] = []
        self._change: MembershipChange | None = None
        self._link = StoreLink(connect, where, settings.silence, self._events.put, held)
        self._link.open(settings.store_timeout)
        self._thread = Thread(target=self._run, name="collalgo rounds", daemon=True)
        start(self._thread)

    # ---- the interface

    def join(self, timeout: float | None = None) -> Membership:
        """Wait until this process is a member of an epoch greater than its last."""
        timeout = self._settings.join_timeout if timeout is None else timeout
        last = self._state.epoch
        with self._changed:
            self._is_joining = True
            self._events.put(Command.ASK)
            is_over = self._changed.wait_for(lambda: self._is_over(last), timeout)
            self._is_joining, state = False, self._state  # which goes on
        if self._failure is not None:
            raise self._failure
        error = obstacle(state, self.where)
        if error is None and is_over:
            return membership_of(state)
        error = error or too_late(state, self.where, timeout)
        self.leave()
        raise error

    def leave(self) -> None:
        """Take no further part; ``join`` returns."""
        self._events.put(Command.LEAVE)
        with self._changed:
            self._changed.wait_for(self._has_left, self._settings.silence)

    def close(self, reason: str = "") -> None:
        """Allow no further epoch; the present one may continue to its end."""
        value = encoded(Closed(reason[:MOST_CHARACTERS]))
        self.store.compare_set(CLOSED, value, ABSENT)

    def waiting(self) -> int:
        """The number of waiting processes that the next epoch would admit."""
        return self._state.notice.waiting

    def change(self) -> MembershipChange | None:
        """The reason for the next round, or None."""
        return self._change

    def watch(self, watcher: Callable[[MembershipChange], None]) -> None:
        """Call a watcher at each change; it must neither wait nor raise."""
        self._watchers.append(watcher)
        if (change := self.change()) is not None:
            watcher(change)

    def remaining(self) -> float:
        """Seconds for which this process certainly counts as alive; 0 if none."""
        return 0.0 if self._link.is_lost else self._link.lease.remaining()

    def shutdown(self) -> None:
        """Leave, and release all resources."""
        self.leave()
        self._events.put(None)
        self._thread.join(self._settings.silence)
        self._link.end(self._settings.silence)

    # ---- further methods, with a store only

    @property
    def store(self) -> KeyValueStore:
        """The store, for keys of the members; theirs begin with ``epoch/``."""
        return self._link.store

    def exclude(self, name: str, reason: str) -> None:
        """Exclude a node, until it is readmitted."""
        exclude(self.store, name, reason[:MOST_CHARACTERS])

    def readmit(self, name: str) -> None:
        """Readmit an excluded node."""
        readmit(self.store, name)

    # ---- waiting for the rounds

    def _is_over(self, last: int) -> bool:
        """Whether a ``join`` has ended."""
        state = self._state
        is_member = state.phase is Phase.MEMBER and state.epoch > last
        has_failed = self._failure is not None
        return is_member or has_failed or obstacle(state, self.where) is not None

    def _has_left(self) -> bool:
        """Whether the store knows that this process has left, or will not."""
        own = self._state.value(self._state.own_key).value
        is_known = own is None or getattr(own, "left", False)
        is_out = self._state.phase is Phase.LEAVING and not self._state.leads
        return (is_known and is_out) or not self._thread.is_alive()

    # ---- the thread

    def _run(self) -> None:
        """Run the rounds until the end of this, or an error that ends them."""
        try:
            measured = monotonic()
            self._repeat_at = measured + RETRY_SECONDS
            while (events := self._collect()) is not None:
                now = monotonic()
                events.insert(0, Elapsed(now - measured))  # before the others happened
                measured = now
                if now > self._repeat_at:
                    events.append(Command.RETRY)
                    self._repeat_at = now + RETRY_SECONDS
                self._advance(events)
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the rounds of this process; its epoch continues."""
        state = self._state
        if state.phase is Phase.MEMBER and state.closed is None:
            words = "node %s continues epoch %d, but can join no other: %s"
            _LOG.warning(words, state.member.name, state.epoch, error)
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def _collect(self) -> list[Event] | None:
        """The next events, after some time at the latest; None at the end."""
        found: list[Event] = []
        with suppress(Empty):
            is_urgent = counts_time(self._state) or not self._link.lease.remaining()
            timeout = QUICK_TICK if is_urgent else TICK
            while True:
                event = self._events.get(timeout=timeout)
                timeout = 0.0
                if event is None:
                    return None
                if isinstance(event, StoreError):
                    found += self._reconnect() if self._link.is_lost else []
                elif isinstance(event, Exception):
                    raise event
                else:
                    found.append(event)
        return found if not self._link.lease.ended else [*found, *self._renew()]

    def _reconnect(self) -> list[Event]:
        own = self._state.own_key
        known = {
            key: value.version
            for key, value in self._state.known.items()
            if value.value is not None and (key.startswith(COMMON) or key == own)
        }
        timeout, is_listing = self._settings.store_timeout, self._state.surveyed
        return self._link.reopen(timeout, known, is_listing=is_listing)

    def _renew(self) -> list[Event]:
        """Begin another lease, and write the keys of the last one again."""
        try:
            self._link.renew()
        except StoreError:
            return []
        own = [self._state.own_key, *([LEADER] if self._state.leads else [])]
        gone = [Seen(key, self._state.value(key).version, None) for key in own]
        return [*gone, Command.RETRY]

    def _advance(self, events: list[Event]) -> None:
        """Process events, and carry out all actions that follow."""
        while events:
            state, actions = step(self._state, events)
            if self._state.surveyed and not state.surveyed:
                self._link.stop_listing()
            self._enter(state)
            events = [seen for action in actions for seen in self._perform(action)]

    def _enter(self, state: Participant) -> None:
        """Make a state the present one, and notify waiters and watchers."""
        is_new = state.phase is Phase.MEMBER and state.epoch > self._state.epoch
        was_expelled = state.phase is Phase.OUT and (
            self._state.phase is not Phase.OUT or state.epoch > self._state.epoch
        )
        with self._changed:
            if was_expelled and self._is_joining:  # which knows nothing of the epoch
                self._events.put(Command.ASK)
            told, self._change = self._change, change_of(state)
            self._state = state
            self._changed.notify_all()
        if is_new and state.round.members[0] == state.member:
            with suppress(StoreError):  # it is only shown
                note_epoch(self.store, state.round)
        if self._change != told:
            for watcher in self._watchers:
                watcher(self._change or MembershipChange(state.epoch))

    def _perform(self, action: Action) -> list[Event]:
        """Carry out an action: the events of its effect."""
        try:
            match action:
                case ListProcesses():
                    return [self._link.list_processes()]
                case Write():
                    seen = self._link.write(action)
                case Delete():
                    seen = self._link.delete(action)
        except LeaseExpired:
            return self._renew()
        except StoreError:  # the action is repeated, over another connection if need be
            self._repeat_at = min(self._repeat_at, monotonic() + FAILED_SECONDS)
            return []
        return [] if seen is None else [seen]
