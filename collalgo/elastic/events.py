"""What a process hears of the rounds of a job, and what it does; see :mod:`.rounds`."""

from dataclasses import dataclass
from enum import Enum

from collalgo.bootstrap.store.protocol import Fence
from collalgo.elastic.documents import Document


@dataclass(frozen=True)
class Seen:
    """What a key holds at a version; None if it was deleted then."""

    key: str
    version: int
    value: Document | None


@dataclass(frozen=True)
class Surveyed:
    """What all keys of processes hold."""

    nodes: tuple[Seen, ...]


@dataclass(frozen=True)
class Elapsed:
    """Seconds that have passed since the last time that they were measured."""

    seconds: float


class Command(Enum):
    """What the process is told to do; ``RETRY`` repeats what may have been lost."""

    ASK = "ask"
    LEAVE = "leave"
    RETRY = "retry"


Event = Seen | Surveyed | Elapsed | Command


@dataclass(frozen=True)
class Write:
    """Set a key if it has a version, and if the keys of the fences have theirs.

    ``leased`` if the key must vanish with the process.
    """

    key: str
    value: Document
    version: int
    fences: tuple[Fence, ...] = ()
    leased: bool = False


@dataclass(frozen=True)
class Delete:
    """Delete a key if it has a version."""

    key: str
    version: int


@dataclass(frozen=True)
class Survey:
    """Watch the keys of all processes, and report what they hold."""


Action = Write | Delete | Survey
