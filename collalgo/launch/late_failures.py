"""Ranks of this host that fail after the end of their job, which no restart repairs."""

from collalgo.bootstrap.store.at_url import StorePlace
from collalgo.bootstrap.store.job_end import last_members
from collalgo.launch.ranks import Rank

#: The last line of the traceback of a restarted rank that was not admitted.
OF_A_LATECOMER = "collalgo.errors.BootstrapError"


class LateFailures:
    """What a launcher knows of the end of a job, and the ranks that fail after it.

    Parameters
    ----------
    place
        The store of the job.

    Attributes
    ----------
    has_finished : bool
        Whether a rank has ended with exit code 0.
    missed : Rank or None
        The last rank whose work after the training is missing.
    """

    def __init__(self, place: StorePlace):
        self._place = place
        self._last_members: frozenset[str] | None = None
        self.has_finished = False
        self.missed: Rank | None = None

    @property
    def is_over(self) -> bool:
        """Whether the job was over when a rank ended last: none can join it again."""
        return self.has_finished or self._last_members is not None

    def look(self) -> None:
        """See whether the job is over."""
        if self._last_members is None:
            self._last_members = last_members(self._place)

    def add(self, rank: Rank, name: str, *, is_first: bool) -> None:
        """Note that a rank, which is the member of a name, has failed.

        The others have finished the work of one that was lost before, or that had
        failed already and was not admitted again.
        """
        was_lost = self._last_members is not None and name not in self._last_members
        is_latecomer = not is_first and rank.ended_by(OF_A_LATECOMER)
        has_failed = (rank.returncode or 0) > 0 and not rank.is_victim()
        if has_failed and not was_lost and not is_latecomer:
            self.missed = rank
