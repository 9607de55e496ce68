"""The ranks of a world on several hosts that make their last call, over the store."""

from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # jobs on one host need no store
    from collalgo.bootstrap.failure_reports import HasStore


class LastCalls:
    """The ranks that have announced their last call.

    Parameters
    ----------
    job
        The job, whose store has the announcements.
    name
        The name of the world, the same for all its ranks.
    rank
        This rank.
    """

    def __init__(self, job: "HasStore", name: str, rank: int):
        self._store, self._key = job.store, f"last/{name}:{rank}"
        self._noted: dict[int, float] = {}

    def announce(self) -> None:
        """Announce the last call of this rank."""
        self._store.post(self._key, b"")

    def note(self, rank: int) -> None:
        """Note that a rank has announced its last call."""
        self._noted[rank] = monotonic()

    def ranks(self, seconds: float) -> set[int]:
        """The ranks whose announcement came some seconds ago."""
        until = monotonic() - seconds
        return {rank for rank, at in self._noted.copy().items() if at <= until}
