"""The events and actions of a process in the rounds; see :mod:`.rounds`."""

from dataclasses import dataclass
from enum import Enum

from collalgo.bootstrap.store.protocol import Fence
from collalgo.elastic.documents import Document


@dataclass(frozen=True)
class Seen:
    """The value of a key at a version; None if it was deleted then."""

    key: str
    version: int
    value: Document | None


@dataclass(frozen=True)
class ProcessesListed:
    """The values of all keys of processes."""

    nodes: tuple[Seen, ...]


@dataclass(frozen=True)
class Elapsed:
    """Seconds since the last measurement of time."""

    seconds: float


class Command(Enum):
    """A command to the process; ``RETRY`` repeats actions that may have been lost."""

    ASK = "ask"
    LEAVE = "leave"
    RETRY = "retry"


Event = Seen | ProcessesListed | Elapsed | Command


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
class ListProcesses:
    """Watch the keys of all processes, and report their values."""


Action = Write | Delete | ListProcesses
