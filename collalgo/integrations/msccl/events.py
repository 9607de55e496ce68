"""Events on the cells of GPUs: messages, copies and adds, and their accesses."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.order import Order
from collalgo.integrations.msccl.program import Connection, Message


class Touch(NamedTuple):
    """One access of an event to a cell; ``writes`` if it changes the value.

    An access that ``reads`` and writes adds to the value. It ends with its node, or
    with the node ``done``.
    """

    event: int
    node: int
    reads: bool
    writes: bool
    done: int | None = None

    @property
    def end(self) -> int:
        """The node after which the access has ended."""
        return self.node if self.done is None else self.done


#: The accesses to each cell of a GPU, in order.
Touches = dict[Cell, list[Touch]]


@dataclass
class Event:
    """An atomic operation: a message, or a copy or add inside a GPU.

    Attributes
    ----------
    message : Message or None
        The message, unless the event is local.
    gpu : int
        The GPU that it writes on.
    kind : str
        ``message``, ``copy`` or ``add``.
    sources, targets : list of Cell
        The cells that it reads and those that it writes, in the same order.
    adds : list of bool
        For each target, whether the event adds to it.
    """

    message: Message | None
    gpu: int
    kind: str
    sources: list[Cell] = field(default_factory=list)
    targets: list[Cell] = field(default_factory=list)
    adds: list[bool] = field(default_factory=list)

    @property
    def connection(self) -> Connection:
        """The sender, the receiver and the channel."""
        return (self.gpu, self.gpu, 0) if self.message is None else self.message[:3]


class Events:
    """The events of a program, and the accesses to each cell in order.

    Parameters
    ----------
    order
        The order of the instructions.
    size
        The number of GPUs.
    visible
        The order in which they see what others have written, unless it is the same.

    Attributes
    ----------
    events : list of Event
        The events; those of a connection in the order of their messages.
    touches : list of dict
        For each GPU, the accesses to each cell in order.
    """

    def __init__(self, order: Order, size: int, visible: Order | None = None):
        self.order, self.visible = order, visible or order
        self.events: list[Event] = []
        self.touches: list[Touches] = [defaultdict(list) for _ in range(size)]

    def touch(self, gpu: int, cells: list[Cell], touch: Touch) -> None:
        """Record an access to some cells."""
        for cell in cells:
            self.touches[gpu][cell].append(touch)

    def inside(
        self, node: int, gpu: int, adds: bool, source: list[Cell], target: list[Cell]
    ) -> None:
        """Record a copy or an add inside a GPU."""
        if source == target and not adds:
            return
        number, kind = len(self.events), "add" if adds else "copy"
        added = [adds] * len(target)
        self.events.append(Event(None, gpu, kind, source, target, added))
        self.touch(gpu, source, Touch(number, node, True, False))
        self.touch(gpu, target, Touch(number, node, adds, True))

    def uses(self, gpu: int, cell: Cell) -> list[Touch]:
        """The accesses to a cell that must be ordered."""
        return self.touches[gpu][cell]
