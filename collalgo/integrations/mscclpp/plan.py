"""The operations of an execution plan of MSCCL++."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from collalgo.integrations.msccl.cells import Cell, Cells

#: The buffer of packets: data with flags, which are in scratch.
PACKETS = "p"


class Span(NamedTuple):
    """Consecutive chunks of a buffer of a GPU."""

    gpu: int
    buffer: str
    first: int
    chunks: int

    def cells(self, cells: Cells) -> list[Cell]:
        """The cells, by their canonical names."""
        return [
            cells.named(self.gpu, Cell(self.buffer, self.first + i))
            for i in range(self.chunks)
        ]


class Channel(NamedTuple):
    """Channel number ``number`` of a type from a GPU to a peer."""

    type: str
    gpu: int
    peer: int
    number: int

    @property
    def other_end(self) -> "Channel":
        """The same channel at the peer."""
        return Channel(self.type, self.peer, self.gpu, self.number)


class Shape(NamedTuple):
    """What an operation on data does with its sources and targets.

    Attributes
    ----------
    form : str
        ``pairs``: each source to its target; ``fan``: the first source to all targets;
        ``sum``: the sum of all sources to all targets.
    packets_in, packets_out : int or None
        The first of its sources, and of its targets, that are packets.
    """

    form: str
    packets_in: int | None = None
    packets_out: int | None = None


SHAPES = {
    "copy": Shape("fan"),
    "put": Shape("pairs"),
    "pws": Shape("pairs"),
    "pwsf": Shape("pairs"),
    "get": Shape("pairs"),
    "re": Shape("sum"),
    "res": Shape("sum"),
    "rre": Shape("sum"),
    "rres": Shape("sum"),
    "ppkt": Shape("pairs", None, 0),
    "rppkt": Shape("fan", 0, 0),
    "upkt": Shape("fan", 0),
    "cpkt": Shape("fan", None, 0),
    "repkt": Shape("sum", 1),
    "respkt": Shape("sum", 1, 1),
    "recpkt": Shape("sum", 1, 1),
    "recspkt": Shape("sum", 1, 1),
}

#: Operations whose first target is on their own GPU.
LOCAL_TARGET = {"copy", "get", "upkt", "cpkt"} | {
    kind for kind, shape in SHAPES.items() if shape.form == "sum"
}

SIGNALS, WAITS = {"signal", "rlxsignal", "pws", "pwsf"}, {"wait", "rlxwait"}

#: Operations without data.
PLAIN = {"nop", "barrier", "flush", "sem_acquire", "sem_release"} | {
    *("signal", "rlxsignal", *WAITS)
}

#: Operations that cannot be expressed by a schedule, and what they are.
FOREIGN = {
    "pipeline": "a loop over parts of chunks",
    **dict.fromkeys(
        ("glre", "glres", "gstore", "gstorepkt"), "a multicast of a switch"
    ),
}


class Operation(NamedTuple):
    """One operation of a thread block.

    Attributes
    ----------
    kind : str
        Its name in the file.
    sources, targets : tuple of Span
        What it reads and what it writes.
    channels : tuple of Channel
        The channels that it uses.
    barrier : tuple of int or None
        The number of a barrier, and of its thread blocks.
    semaphores : tuple of int
        The semaphores that it acquires or releases.
    """

    kind: str
    sources: tuple[Span, ...] = ()
    targets: tuple[Span, ...] = ()
    channels: tuple[Channel, ...] = ()
    barrier: tuple[int, int] | None = None
    semaphores: tuple[int, ...] = ()

    @property
    def is_asynchronous(self) -> bool:
        """Whether it ends later than its block continues."""
        return self.kind in ("put", "pws", "ppkt", "rppkt") and any(
            channel.type == "port" for channel in self.channels
        )

    def moves(self) -> Iterator[tuple[Span, Span, bool]]:
        """Its moves in order: source, target, and whether it adds to the target."""
        if self.kind not in SHAPES:
            return
        form = SHAPES[self.kind].form
        if form == "pairs":
            for pair in zip(self.sources, self.targets, strict=True):
                yield *pair, False
        elif form == "fan":
            for target in self.targets:
                yield self.sources[0], target, False
        else:
            yield from self._sum()

    def _sum(self) -> Iterator[tuple[Span, Span, bool]]:
        target, *others = self.targets
        terms = list(self.sources)
        if target in terms:
            terms.remove(target)
        else:
            yield terms.pop(0), target, False
        for term in terms:
            yield term, target, True
        for other in others:
            yield target, other, False


@dataclass
class Plan:
    """An execution plan.

    Attributes
    ----------
    name : str
        Its name.
    cells : Cells
        The cells of its collective.
    blocks : list
        The operations of each thread block of each GPU.
    semaphores : list
        The initial values of the semaphores of each GPU.
    """

    name: str
    cells: Cells
    blocks: list[list[list[Operation]]] = field(default_factory=list)
    semaphores: list[list[int]] = field(default_factory=list)
