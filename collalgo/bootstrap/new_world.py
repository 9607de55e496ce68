"""A new world on several hosts: its ranks join over the store of the job."""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from collalgo._kernels.engine.transport.wire import poll
from collalgo.bootstrap.context import Check, unchecked
from collalgo.bootstrap.exchange import listed_values
from collalgo.bootstrap.late_ranks import LateRanks
from collalgo.bootstrap.liveness_check import ProcessGone
from collalgo.bootstrap.pending_join import PendingJoin
from collalgo.bootstrap.store.protocol import (
    ABSENT,
    Entry,
    KeyValueStore,
    StoreError,
    add,
)
from collalgo.cost.host_profile import HostProfile, host_profile
from collalgo.errors import BootstrapError

#: Seconds between two checks of a wait.
CHECK_SECONDS = 0.25


@dataclass
class NewWorld:
    """A world that some processes of a job join: the view of one of its ranks.

    Attributes
    ----------
    path : str
        Its name, the same for all its ranks.
    rank : int
        This rank.
    members : sequence of int
        Its ranks, as errors call them.
    ranks : tuple of int
        Their ranks in the job.
    hosts : tuple of int
        The number of the host of each.
    deadline : float
        The end of the wait, by the monotonic clock.
    check : callable
        Called at intervals while it waits; an error that it raises ends the wait.
    """

    path: str
    rank: int
    members: Sequence[int]
    ranks: tuple[int, ...]
    hosts: tuple[int, ...]
    deadline: float
    check: Check

    @property
    def here(self) -> list[int]:
        """Its ranks on the host of this one."""
        mine = self.hosts[self.rank]
        return [rank for rank, host in enumerate(self.hosts) if host == mine]

    @property
    def left(self) -> float:
        """Seconds until the deadline."""
        return max(self.deadline - time.monotonic(), 0.01)

    def awaited(self, key: str, joining: PendingJoin, also: Check = unchecked) -> bytes:
        """Wait for a key of the store, with its check and another at intervals."""
        while True:
            turn = min(self.left, CHECK_SECONDS)
            ends = time.monotonic() + turn
            poll()  # as another may wait for a message before it joins
            try:
                return joining.get(key, turn)
            except BootstrapError as error:
                self.check()  # first, as a rank that found a difference may leave
                also()
                now, is_late = time.monotonic(), isinstance(error, StoreError)
                if not is_late or now < ends or now >= self.deadline:
                    raise


def assemble(
    world: NewWorld, joining: PendingJoin, store: KeyValueStore
) -> tuple[int, HostProfile]:
    """Wait for all ranks: the number of the world, and the profile of rank 0.

    All ranks read from one key whether it is made. The key is set once: by rank 0,
    or with the reason by the first that gives up.
    """
    joining.set(f"here/{world.path}/{world.rank}", b"")
    try:
        if world.rank == 0:
            outcome = _settle(world, store, _announcement(world, joining, store))
        else:
            outcome = json.loads(_announced(world, joining, store))
    except BootstrapError as error:
        refusal = {"refused": str(error), "missing": error.missing}
        if isinstance(error, ProcessGone):
            refusal["why"] = error.why
        outcome = _settle(world, store, refusal)
        if isinstance(outcome, dict):
            raise
    if isinstance(outcome, dict):
        raise _refused_by_another(world, **outcome)
    number, *settings = outcome
    return number, HostProfile.of_settings(settings)


def _refused_by_another(
    world: NewWorld, refused: str, missing: Sequence[int], why: str | None = None
) -> BootstrapError:
    me = world.members[world.rank]
    if why is not None:
        return ProcessGone(me, missing[0], why)
    return BootstrapError(
        f"rank {me} cannot join, as another rank has given up: {refused}",
        rank=me,
        missing=tuple(missing),
    )


def _announced(world: NewWorld, joining: PendingJoin, store: KeyValueStore) -> bytes:
    """Wait until rank 0 announces that all ranks have joined."""
    try:
        return world.awaited(f"world/{world.path}", joining)
    except StoreError as error:
        raise _join_error(world, store, f" ({error})") from None


def _announcement(
    world: NewWorld, joining: PendingJoin, store: KeyValueStore
) -> list[Any]:
    """Wait for all ranks, as rank 0: the number of the world, and the profile."""
    _wait_for_all(world, joining, store)
    machine, number = host_profile(), add(store, "worlds", 1)
    return [number, *machine.settings()]


def _settle(world: NewWorld, store: KeyValueStore, outcome: Any) -> Any:
    """Set whether the world is made, unless it is set; return the value."""
    value = json.dumps(outcome).encode()
    entry = store.compare_set(f"world/{world.path}", value, ABSENT).entry
    assert entry is not None
    return json.loads(entry.value)


def _wait_for_all(world: NewWorld, joining: PendingJoin, store: KeyValueStore) -> None:
    me, size = world.members[world.rank], len(world.members)
    late = LateRanks(me, size, world.deadline)

    def check_refused() -> None:
        late.check(lambda: _missing(world, store))
        if (entry := store.read(f"world/{world.path}")) is not None:
            raise _refused_by_another(world, **json.loads(entry.value))

    def wait(key: str) -> bytes:
        return world.awaited(key, joining, check_refused)

    prefix, count = f"here/{world.path}/", len(world.members)
    try:
        for _ in listed_values(joining, prefix, count, wait):
            pass
    except StoreError:
        raise _join_error(world, store) from None


def _join_error(world: NewWorld, store: KeyValueStore, why: str = "") -> BootstrapError:
    """The error of a wait for ranks that have not joined."""
    missing = _missing(world, store)
    me, size = world.members[world.rank], len(world.members)
    return BootstrapError(
        f"rank {me} waited for ranks {list(missing)} of {size}, which did not join in "
        f"time{why}; check that they were started",
        rank=me,
        missing=missing,
    )


def _missing(world: NewWorld, store: KeyValueStore) -> tuple[int, ...]:
    """The ranks that have not joined; all, if the store cannot be read."""
    prefix = f"here/{world.path}/"
    present: dict[str, Entry] = {}
    with suppress(StoreError):
        present = store.entries(prefix)
    return tuple(
        member
        for rank, member in enumerate(world.members)
        if f"{prefix}{rank}" not in present
    )
