"""The reports of the ranks of a world on several hosts on a failure, over the store."""

import json
from contextlib import suppress
from functools import cached_property
from time import monotonic
from typing import Any, Protocol

from collalgo._kernels.engine.transport.composite import Composite
from collalgo.bootstrap.differences import differ
from collalgo.bootstrap.store.protocol import KeyValueStore, StoreError

#: Seconds that the rank which has found a failure waits for the reports of the others.
REPORT_SECONDS = 2.0


class HasStore(Protocol):
    """A job with a store."""

    store: KeyValueStore


class Job(Protocol):
    """The processes of a job, as one of them sees them."""

    store: KeyValueStore
    store_rank: int | None
    store_is_late: bool
    peer_died: bool
    has_failed: bool

    def is_gone(self, rank: int) -> bool:
        """Whether a process has ended, or cannot be reached."""


class FailureReports:
    """The reports of one rank, and its view of those of the others.

    Parameters
    ----------
    job
        The job, whose store has the reports.
    name
        The name of the world, the same for all its ranks.
    transport
        The transport of this rank.
    size
        The number of ranks of the world.
    """

    def __init__(self, job: HasStore, name: str, transport: Composite, size: int):
        self._job = job
        self._name = name
        self._transport = transport
        self._size = size

    def post(self, sequence: int) -> None:
        """Report the calls of this rank, and those of its host with a number."""
        self._post("calls", self._transport.shared.calls())
        self._post("report", self._report(sequence))

    def _post(self, topic: str, found: Any) -> None:
        key = f"{topic}/{self._name}/{self._transport.rank}"
        self._job.store.post(key, json.dumps(found).encode())

    def _report(self, sequence: int) -> dict[str, Any]:
        """For each rank of this host: see :meth:`_reports`."""
        shared = self._transport.shared
        return {
            str(rank): [
                shared.entered(local),
                shared.call(local),
                shared.call(local, sequence),
            ]
            for local, rank in enumerate(shared.members)
        }

    def complete(self, failure: dict[str, Any]) -> None:
        """Add the details of a time-out or a mismatch that only other hosts have."""
        if failure["kind"] == "timeout":
            reports = self._reports()
            differs = self._is_mismatch(failure, reports)
            if not differs and not self._is_earlier_mismatch(failure, reports):
                self._add_missing(failure, reports)
        if failure["kind"] == "mismatch":
            self._find_first(failure)

    def _find_first(self, failure: dict[str, Any]) -> None:
        """Name the first call in which its finder and the culprit differ."""
        its = {call["sequence"]: call for call in self._calls_of(failure["culprit"])}
        for mine in self._calls_of(failure["rank"]):  # may be another rank of this host
            theirs = its.get(mine["sequence"], mine)
            if differ(mine, theirs):
                failure.update(sequence=mine["sequence"], mine=mine, theirs=theirs)
                return

    def _add_missing(self, failure: dict[str, Any], reports: dict[str, Any]) -> None:
        """Add the ranks that have not made the call, and their last calls."""
        missing = [
            rank
            for rank in range(self._size)
            if reports.get(str(rank), (0, None, None))[0] < failure["sequence"]
        ]
        failure["missing"] = missing
        failure["last_calls"] = {
            str(rank): reports[str(rank)][1] for rank in missing if str(rank) in reports
        }

    @staticmethod
    def _is_mismatch(failure: dict[str, Any], reports: dict[str, Any]) -> bool:
        """Whether a rank has made another call instead; the failure then names it."""
        for rank, (_, _, theirs) in reports.items():
            if theirs and theirs["fingerprint"] != failure["mine"]["fingerprint"]:
                failure.update(kind="mismatch", culprit=int(rank), theirs=theirs)
                return True
        return False

    def _is_earlier_mismatch(
        self, failure: dict[str, Any], reports: dict[str, Any]
    ) -> bool:
        """The same of the call that a late rank is in, which this one has left."""
        shared = self._transport.shared
        for rank, (entered, theirs, _) in reports.items():
            mine = theirs and shared.call(shared.rank, theirs["sequence"])
            if mine and entered < failure["sequence"] and differ(mine, theirs):
                failure.update(
                    kind="mismatch", rank=self._transport.rank, culprit=int(rank),
                    sequence=theirs["sequence"], mine=mine, theirs=theirs,
                )  # fmt: skip
                return True
        return False

    def _reports(self) -> dict[str, Any]:
        """For each rank: the number of its calls, the last one, and the failed one."""
        reports: dict[str, Any] = {}
        end = monotonic() + REPORT_SECONDS
        for rank in [self._transport.rank, *self._others]:
            if str(rank) not in reports:
                reports.update(self._ask_for("report", rank, end) or {})
        return reports

    def _calls_of(self, rank: int) -> list[dict[str, Any]]:
        """The last calls of a rank; none if it does not report them in time."""
        return self._ask_for("calls", rank, monotonic() + REPORT_SECONDS) or []

    def _ask_for(self, topic: str, rank: int, end: float) -> Any:
        """The post of a rank about a topic until the time ``end``, or None."""
        with suppress(StoreError):
            key = f"{topic}/{self._name}/{rank}"
            return json.loads(self._job.store.get(key, max(0.0, end - monotonic())))
        return None

    @cached_property
    def _others(self) -> list[int]:
        return [r for r in range(self._size) if r not in self._transport.shared.members]
