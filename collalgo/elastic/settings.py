"""The settings of an elastic job."""

from dataclasses import dataclass, field

from collalgo.elastic.schema import MOST_CHARACTERS, MOST_TERMS
from collalgo.launch.options import MOST_MEMBERS


@dataclass(frozen=True)
class Settings:
    """The number of members of a job, and their timeouts.

    All durations are measured by the monotonic clock of one process.

    Attributes
    ----------
    least, most : int
        The number of members: at least, and at most.
    last_call : float
        Seconds that a round waits for further members once there are enough. It does
        not wait if the survivors of an epoch are enough, or all places are taken.
    patience : float
        Seconds that members wait for a live member that does not request the new epoch.
        It is then excluded, and fenced.
    silence : float
        Seconds after which the store counts a member as lost that does not answer,
        because it is paused or cannot be reached. The end of a process is seen at once.
    join_timeout : float
        Seconds that a process waits to become a member.
    store_timeout : float
        Seconds to reach the store, at first and, if it is embedded, after it was lost.
        Clients of etcd and of a folder try without a limit.
    terms : dict
        The properties that all members must share, as text by name: the version of the
        code, the number of ranks per node and so on. Others are refused with both
        values.

    Raises
    ------
    ValueError
        If the numbers exclude each other, or there are too many or too long terms.
    """

    least: int
    most: int
    last_call: float = 1.0
    patience: float = 60.0
    silence: float = 5.0
    join_timeout: float = 600.0
    store_timeout: float = 30.0
    terms: dict[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most <= MOST_MEMBERS:
            raise ValueError(
                f"a job cannot have {self.least} to {self.most} members; need "
                f"1 <= least <= most <= {MOST_MEMBERS}"
            )
        for name in ("last_call", "patience", "silence", "join_timeout"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)} s; need 0 or more")
        texts = [*self.terms, *self.terms.values()]
        if len(self.terms) > MOST_TERMS or any(len(t) > MOST_CHARACTERS for t in texts):
            raise ValueError(
                f"a job has at most {MOST_TERMS} terms of {MOST_CHARACTERS} characters"
            )

    @property
    def all_terms(self) -> dict[str, str]:
        """The terms with those that follow from the settings."""
        return {"members": f"{self.least} to {self.most}", **self.terms}
