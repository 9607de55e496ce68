"""The place of a process in one world on several hosts: what it hears and says there.

Who leaves the world says so, and who finds out that a call cannot succeed says why.
The first to say so is believed by all, when it has heard what the others know.
"""

import json
from contextlib import suppress
from functools import cached_property
from threading import Event
from time import monotonic
from typing import Any, Protocol

from collalgo._kernels.engine.transport.composite import Composite
from collalgo.bootstrap.store.client import Client, StoreError

#: Seconds that the first to find a failure waits for what the others know of it.
REPORT_SECONDS = 2.0

#: Seconds that the store has to answer, which may be out of reach.
ANSWER_SECONDS = 1.0

#: Seconds that the others wait for the first to say what has failed.
VERDICT_SECONDS = 4.0


class Job(Protocol):
    """What a process knows of the others of its job."""

    store: Client
    store_rank: int | None
    peer_died: bool

    def is_gone(self, rank: int) -> bool:
        """Whether a process has ended, or cannot be reached."""


class FailureAgreement:
    """The place of a process in a world on several hosts.

    Parameters
    ----------
    job
        What the process knows of it.
    name
        Of the world, the same for all its ranks.
    transport
        This rank's end.
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
        self._failure: dict[str, Any] | None = None
        self._is_judged = Event()
        self._orphaned = ""

    # ---- what the process hears

    def gone(self, job_rank: int, why: str) -> None:
        """A process of the job has ended; it may have left this world before."""
        with suppress(ValueError):
            rank = self._ranks.index(job_rank)
            if rank not in self._exit_reasons:
                self.left(rank, 0, why)

    def left(self, rank: int, completed: int, exit_reason: str) -> None:
        """A rank has left after so many calls."""
        self._exit_reasons[rank] = exit_reason
        if rank not in self._transport.shared.members:
            self._transport.leave_behind(rank, completed)

    def failed(self, failure: dict[str, Any]) -> None:
        """Some rank has found a failure: say what I know, and stop all calls here."""
        self._failure = failure
        with suppress(ValueError):  # closed here
            shared = self._transport.shared
            report = {
                str(rank): [
                    shared.entered(place),
                    shared.call(place),
                    shared.call(place, failure["sequence"]),
                ]
                for place, rank in enumerate(shared.members)
            }
            self._job.store.tell(
                f"report/{self._name}/{self._transport.rank}",
                json.dumps(report).encode(),
            )
            shared.break_off(self._first_to_fail(failure))

    def _first_to_fail(self, failure: dict[str, Any]) -> int:
        """The first call that cannot be completed here after a failure."""
        culprit = failure["culprit"]
        if failure["kind"] != "peer" or culprit in self._transport.shared.members:
            return int(failure["sequence"])
        # Who said that it left said after how many calls; what others did nobody knows.
        return int(failure["sequence"]) if culprit in self._exit_reasons else 0

    def store_lost(self, why: str) -> None:
        """Nobody can tell any more what happens on other hosts: stop all calls here."""
        self._orphaned = why
        with suppress(ValueError):  # closed here
            self._transport.shared.break_off()

    def judged(self, failure: dict[str, Any]) -> None:
        """Now all is known of the failure."""
        self._failure = failure
        self._is_judged.set()

    def compare(self, theirs: list[dict[str, Any]]) -> None:
        """A rank has waited for long in the last of its calls: compare them with mine.

        Who has not come to that yet is late, which is no mismatch.
        """
        with suppress(ValueError):  # closed here
            mine = {
                call["sequence"]: call for call in self._transport.comparison.calls()
            }
            for call in theirs:
                if _differ(call, mine.get(call["sequence"], call)):
                    both = json.dumps([call, mine[call["sequence"]]]).encode()
                    self._job.store.propose(f"mismatch/{self._name}", both)
                    return
            self._transport.comparison.put_off(theirs[-1]["sequence"])

    def differ(self, calls: list[dict[str, Any]]) -> None:
        """Two ranks have made different calls: fail if I have made one of them."""
        with suppress(ValueError):  # closed here
            for mine in self._transport.comparison.calls():
                for theirs in calls:
                    if _differ(mine, theirs):
                        self._transport.comparison.differs(theirs)
                        return

    # ---- what the process says

    def ask(self) -> None:
        """Ask all ranks whether they are in the call that this one waits in."""
        with suppress(ValueError):  # closed here
            if calls := self._transport.comparison.calls():
                question = json.dumps(calls).encode()
                self._job.store.tell(f"waiting/{self._name}", question)

    def leave(self, exit_reason: str) -> None:
        """Tell the ranks on other hosts that this one has left, and why."""
        about = {
            "completed": self._transport.shared.completed,
            "exit_reason": exit_reason,
        }
        self._job.store.tell(
            f"left/{self._name}/{self._transport.rank}", json.dumps(about).encode()
        )

    def decision(self, failure: dict[str, Any]) -> dict[str, Any]:
        """What all ranks agree has failed, of which this one knows something."""
        try:
            if failure["kind"] != "elsewhere" and not self._is_judged.is_set():
                self._propose(failure)
            self._is_judged.wait(0 if self._orphaned else VERDICT_SECONDS)
        except StoreError:  # nobody can be asked
            pass
        found = self._failure = self._failure or self._alone(failure)
        if found["kind"] == "peer" and found["culprit"] >= 0:
            gone = self._job.is_gone(self._ranks[found["culprit"]])
            self._job.peer_died |= gone
        return found

    def _propose(self, failure: dict[str, Any]) -> None:
        """Say what has failed; if nobody was before me, ask the others and judge."""
        store = self._job.store
        # Ranks of one host all find the same: what they say tells them apart by this.
        mine = json.dumps({**failure, "judge": self._transport.rank}).encode()
        key = f"failed/{self._name}"
        if store.compare_set(key, None, mine, ANSWER_SECONDS) == mine:
            self._complete(failure)
            self.judged(failure)
            store.set(f"decision/{self._name}", json.dumps(failure).encode())

    def _alone(self, failure: dict[str, Any]) -> dict[str, Any]:
        """What I make of a failure if nobody can be asked."""
        store_rank = self._job.store_rank
        if failure["kind"] == "elsewhere":
            culprit = self._ranks.index(store_rank) if store_rank in self._ranks else -1
            failure = {**failure, "kind": "peer", "culprit": culprit}
            failure["exit_reason"] = self._orphaned
        self._explain(failure)
        return failure

    def _explain(self, failure: dict[str, Any]) -> None:
        """Add why the culprit has left."""
        if failure["kind"] == "peer" and not failure["exit_reason"]:
            failure["exit_reason"] = self._exit_reasons.get(failure["culprit"], "")

    def _complete(self, failure: dict[str, Any]) -> None:
        """Add to what I have found what only other hosts know of it."""
        self._explain(failure)
        if failure["kind"] == "peer":
            return
        known = self._reports(failure)
        if failure["kind"] == "mismatch":
            theirs = known.get(str(failure["culprit"]), (0, None, None))[2]
            failure["theirs"] = theirs or failure["theirs"]
            return
        if self._is_mismatch(failure, known):
            return
        missing = [
            rank
            for rank in range(len(self._ranks))
            if known.get(str(rank), (0, None, None))[0] < failure["sequence"]
        ]
        failure["missing"] = missing
        failure["last_calls"] = {
            str(rank): known[str(rank)][1] for rank in missing if str(rank) in known
        }

    @staticmethod
    def _is_mismatch(failure: dict[str, Any], known: dict[str, Any]) -> bool:
        """Whether a rank has made another call instead; then tell that."""
        for rank, (_, _, theirs) in known.items():
            if theirs and theirs["fingerprint"] != failure["mine"]["fingerprint"]:
                failure.update(kind="mismatch", culprit=int(rank), theirs=theirs)
                return True
        return False

    def _reports(self, failure: dict[str, Any]) -> dict[str, Any]:
        """For each rank its number of calls, its last one, and the one that failed."""
        known: dict[str, Any] = {}
        asked = [failure["culprit"]] if failure["kind"] == "mismatch" else self._others
        end = monotonic() + REPORT_SECONDS
        for rank in [self._transport.rank, *asked]:
            if str(rank) not in known:
                with suppress(StoreError):
                    key = f"report/{self._name}/{rank}"
                    found = self._job.store.get(key, max(0.0, end - monotonic()))
                    known.update(json.loads(found))
        return known

    @cached_property
    def _others(self) -> list[int]:
        return [
            r
            for r in range(len(self._ranks))
            if r not in self._transport.shared.members
        ]


def _differ(call: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two calls are of one number, but not the same."""
    if call["sequence"] != other["sequence"]:
        return False
    return bool(call["fingerprint"] != other["fingerprint"])
