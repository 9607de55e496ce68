"""The agreement of the ranks of a world on several hosts on a failure.

A rank that leaves the world reports it to the store, and so does a rank that finds out
why a call cannot succeed. The first failure reported there is the one that all raise,
after its rank has completed it with the reports of the others.
"""

import json
from collections.abc import Sequence
from contextlib import suppress
from threading import Event
from typing import Any

from collalgo._kernels.engine.transport import survivors
from collalgo._kernels.engine.transport.composite import Composite
from collalgo.bootstrap.differences import CallsMade, calls_of, differ, difference
from collalgo.bootstrap.failure_reports import FailureReports, Job
from collalgo.bootstrap.group_calls import GroupCalls
from collalgo.bootstrap.last_calls import LastCalls
from collalgo.bootstrap.store.protocol import ABSENT, StoreError
from collalgo.bootstrap.survivors import StoreSurvivors

#: Seconds that the store has to answer; it may have been lost.
ANSWER_SECONDS = 1.0

#: Seconds that the others wait for the decision.
DECISION_SECONDS = 4.0


class FailureAgreement:
    """The part of one rank in the agreement of its world.

    Parameters
    ----------
    job
        The processes of the job.
    name
        The name of the world, the same for all its ranks.
    transport
        The transport of this rank.
    ranks
        The rank in the job of each rank of the world.
    """

    def __init__(
        self,
        job: Job,
        name: str,
        transport: Composite,
        ranks: tuple[int, ...],
    ):
        self._job = job
        self._name = name
        self._transport = transport
        self._ranks = ranks
        self._exit_reasons: dict[int, str] = {}
        self._departed: dict[int, CallsMade] = {}
        self._failure: dict[str, Any] | None = None
        self._is_decided = Event()
        self._store_lost = ""
        self.group_calls = GroupCalls(transport.shared, transport.rank)
        self.last_calls = LastCalls(job, name, transport.rank)
        self._reports = FailureReports(job, name, transport, len(ranks))

    # ---- events

    def gone(self, job_rank: int, why: str) -> None:
        """React to the end of a process of the job, which may have left before."""
        with suppress(ValueError):
            rank = self._ranks.index(job_rank)
            if rank not in self._exit_reasons:
                self.left(rank, 0, why)

    def left(
        self,
        rank: int,
        completed: int,
        exit_reason: str,
        calls: Sequence[Any] | None = None,
    ) -> None:
        """React to a rank that has left after a number of calls, with the last ones."""
        self._exit_reasons[rank] = exit_reason
        if rank in self._transport.shared.members:
            return
        if calls is not None:
            self._departed[rank] = CallsMade(rank, *calls)
        if not self._accuse_departed():
            self._transport.mark_departed(rank, completed)

    def failed(self, failure: dict[str, Any]) -> None:
        """React to a failure that a rank has found: report, and stop all calls here."""
        self._failure = failure
        with suppress(ValueError):  # closed here
            self._reports.post(failure["sequence"])
            self._break_off(failure)

    def _break_off(self, failure: dict[str, Any]) -> None:
        """Fail the calls here that cannot be completed after a failure."""
        self._transport.shared.abort_calls(self._first_to_fail(failure))

    def _first_to_fail(self, failure: dict[str, Any]) -> int:
        """The first call that cannot be completed here after a failure."""
        culprit = failure["culprit"]
        if failure["kind"] != "peer" or culprit in self._transport.shared.members:
            return int(failure["sequence"])
        # A rank that left has reported the number of its calls; a dead one has not.
        return int(failure["sequence"]) if culprit in self._exit_reasons else 0

    def revoked(self, about: Sequence[int]) -> None:
        """React to a rank that has revoked the world from the call of a number on."""
        with suppress(ValueError):  # closed here
            survivors.revoke(self._transport.shared, *about)

    def store_lost(self, why: str) -> None:
        """React to the loss of the store, without which hosts cannot agree: stop."""
        self._store_lost = why
        with suppress(ValueError):  # closed here
            self._transport.shared.abort_calls()

    def decided(self, failure: dict[str, Any]) -> None:
        """React to the decision, whose call may be an earlier one than was reported."""
        self._failure = failure
        self._is_decided.set()
        with suppress(ValueError):  # closed here
            self._break_off(failure)

    def compare(self, question: dict[str, Any]) -> None:
        """React to a rank that has waited for long: compare its calls with those here.

        A call that this rank has not reached yet is late, which is not a mismatch.
        """
        with suppress(ValueError):  # closed here
            theirs, rank = question["calls"], question["rank"]
            if rank == self._transport.rank or self._has_differed(theirs):
                return
            last = theirs[-1] if theirs else None
            if last and question["group"] is None:
                self._transport.comparison.defer(last["sequence"])
            if self.group_calls.note(rank, last, question["group"]):
                self.ask()

    def _has_differed(self, theirs: list[dict[str, Any]]) -> bool:
        """Report the first call of another rank that differs from that of this one."""
        mine = {call["sequence"]: call for call in self._transport.comparison.calls()}
        for call in theirs:
            if differ(call, mine.get(call["sequence"], call)):
                both = json.dumps([call, mine[call["sequence"]]]).encode()
                self._job.store.post(f"mismatch/{self._name}", both, ABSENT)
                return True
        return False

    def differ(self, calls: list[dict[str, Any]]) -> None:
        """React to two different calls: fail if this rank has made one of them."""
        with suppress(ValueError):  # closed here
            self._accuse(calls)

    def _accuse(self, calls: list[dict[str, Any]]) -> bool:
        """Report a mismatch if this rank has made another call in place of one."""
        for mine in self._transport.comparison.calls():
            for theirs in calls:
                if differ(mine, theirs):
                    self._transport.comparison.differs(theirs)
                    return True
        return False

    def _accuse_departed(self) -> bool:
        """The same with the calls of the ranks on other hosts that have left."""
        with suppress(ValueError):  # closed here
            for each in list(self._departed.values()):
                if self._accuse([{**call, "rank": each.rank} for call in each.last]):
                    return True
        return False

    # ---- reports

    def ask(self) -> None:
        """Ask all ranks to compare their calls with those of this one."""
        with suppress(ValueError):  # closed here
            if self._accuse_departed():  # which do not answer
                return
            question = {
                "rank": self._transport.rank,
                "calls": self._transport.comparison.calls(),
                "group": self.group_calls.question(),
            }
            if question["calls"] or question["group"]:
                text = json.dumps(question).encode()
                self._job.store.post(f"waiting/{self._name}", text)

    def leave(self, exit_reason: str, *, in_order: bool = False) -> None:
        """Report to the ranks on other hosts that this one has left, and why."""
        shared = self._transport.shared
        about = {
            "completed": shared.completed,
            "exit_reason": exit_reason,
            "calls": calls_of(shared, shared.rank, is_final=in_order)[1:],
        }
        self._job.store.post(
            f"left/{self._name}:{self._transport.rank}", json.dumps(about).encode()
        )

    def revoke(self, sequence: int) -> None:
        """Fail the calls of ranks on other hosts, from a number on."""
        about = json.dumps([self._transport.rank, sequence]).encode()
        self._job.store.post(f"revoked/{self._name}", about, ABSENT)

    def survivors(self) -> StoreSurvivors:
        """The agreement of the survivors on the lost ranks."""
        of_world = self._name, self._transport.rank, len(self._ranks)
        return StoreSurvivors(
            self._job.store, *of_world, lambda: set(self._exit_reasons)
        )

    def difference(self) -> dict[str, Any] | None:
        """The first call of a rank that has left and that differs from those here."""
        self._read_departed()
        shared = self._transport.shared
        in_order = shared.failure() is None
        mine = calls_of(shared, shared.rank, is_final=in_order)
        found = (difference(mine, each) for each in self._departed.values())
        return next((each for each in found if each), None)

    def _read_departed(self) -> None:
        """Read the calls of the ranks on other hosts that have left.

        Earlier reports count if the store does not answer: first the report
        of this rank is read, for a short time, and once in a job.
        """
        prefix = f"left/{self._name}:"
        if self._job.store_is_late:
            return
        try:
            self._job.store.get(f"{prefix}{self._transport.rank}", ANSWER_SECONDS)
            found = self._job.store.entries(prefix)
        except StoreError:
            self._job.store_is_late = True
            return
        for key, entry in found.items():
            rank, about = int(key.removeprefix(prefix)), json.loads(entry.value)
            if rank not in self._transport.shared.members:
                self._departed[rank] = CallsMade(rank, *about["calls"])

    def decision(self, failure: dict[str, Any]) -> dict[str, Any]:
        """The failure that all ranks agree on.

        Parameters
        ----------
        failure
            The failure as this rank sees it.
        """
        try:
            if failure["kind"] != "elsewhere" and not self._is_decided.is_set():
                self._propose(failure)
            self._is_decided.wait(0 if self._store_lost else DECISION_SECONDS)
        except StoreError:  # the store cannot be asked
            pass
        found = self._failure = self._failure or self._alone(failure)
        self._job.has_failed = True
        if found["kind"] == "peer" and found["culprit"] >= 0:
            gone = self._job.is_gone(self._ranks[found["culprit"]])
            self._job.peer_died |= gone
        return found

    def _propose(self, failure: dict[str, Any]) -> None:
        """Report a failure; if it is the first, complete it and decide."""
        store = self._job.store
        # Ranks of one host find the same failure; the rank makes each report unique.
        mine = json.dumps({**failure, "reporter": self._transport.rank}).encode()
        key = f"failed/{self._name}"
        store.post(key, mine, ABSENT)
        if store.get(key, ANSWER_SECONDS) == mine:
            self._complete(failure)
            self.decided(failure)
            store.set(f"decision/{self._name}", json.dumps(failure).encode())

    def _alone(self, failure: dict[str, Any]) -> dict[str, Any]:
        """The failure as this rank sees it if the store does not answer."""
        store_rank = self._job.store_rank
        if failure["kind"] == "elsewhere":
            culprit = self._ranks.index(store_rank) if store_rank in self._ranks else -1
            failure = {**failure, "kind": "peer", "culprit": culprit}
            failure["exit_reason"] = self._store_lost
        self._explain(failure)
        return failure

    def _explain(self, failure: dict[str, Any]) -> None:
        """Add the reason why the culprit has left."""
        if failure["kind"] == "peer" and not failure["exit_reason"]:
            failure["exit_reason"] = self._exit_reasons.get(failure["culprit"], "")

    def _complete(self, failure: dict[str, Any]) -> None:
        """Add the details of a failure that only other hosts have."""
        self._explain(failure)
        if failure["kind"] == "peer":
            return
        self._reports.complete(failure)
