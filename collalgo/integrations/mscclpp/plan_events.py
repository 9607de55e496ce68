"""The events of an execution plan, and their accesses to memory.

An operation writes the memory of another GPU at once: it is a message that is sent and
received by the same node. Data through a port has arrived after the wait for the next
signal on its channel.
"""

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.events import Event, Events, Touch
from collalgo.integrations.msccl.program import Message
from collalgo.integrations.mscclpp.plan import PACKETS, Operation, Plan, Span
from collalgo.integrations.mscclpp.synchronisation import Synchronisation
from collalgo.integrations.mscclpp.threads import check_threads

#: The number of the event of an access after the plan.
OUTSIDE = -1


class PlanEvents(Events):
    """The events of a plan.

    Raises
    ------
    ScheduleError
        If the operations can never run, or nothing makes their data arrive.
    """

    def __init__(self, plan: Plan):
        check_threads(plan)
        self.plan, self._of = plan, Synchronisation(plan)
        super().__init__(self._of.order, len(plan.blocks), self._of.visible)
        for number in self.order.sequence:
            operation = self._of.operations.get(number)
            if operation is not None:
                self._unroll(number, operation)
        self._check_scratch()

    def _unroll(self, node: int, operation: Operation) -> None:
        for source, target, adds in operation.moves():
            self._move(node, operation, (source, target), adds)

    def _move(
        self, node: int, operation: Operation, ends: tuple[Span, Span], adds: bool
    ) -> None:
        """Record a move of an operation, inside its GPU or between two."""
        cells = self.plan.cells
        source, target = (span.cells(cells) for span in ends)
        sender, receiver = (span.gpu for span in ends)
        self._check_begun(node, sender, source)
        self._check_begun(node, receiver, target)
        if sender == receiver:
            self.inside(node, sender, adds, source, target)
            return
        done = None
        if operation.is_asynchronous or operation.kind == "pwsf":
            done = self._arrival(node, operation, receiver)
        place = self.order.nodes[node][:3]
        number = len(self.events)
        message = Message(sender, receiver, 0, place, place)
        added = [adds] * len(target)
        self.events.append(Event(message, receiver, "message", source, target, added))
        left = None if operation.kind == "pwsf" else done
        self.touch(sender, source, Touch(number, node, True, False, left))
        self.touch(receiver, target, Touch(number, node, adds, True, done))

    def _arrival(self, node: int, operation: Operation, receiver: int) -> int | None:
        """The node at which data through a port has arrived; packets are polled."""
        if operation.targets[0].buffer == PACKETS:
            return None
        for channel in operation.channels:
            if channel.peer == receiver:
                found = self._of.arrival(node, channel)
                if found is not None:
                    return found
        raise ScheduleError(
            f"{self.plan.name}: {self.order.nodes[node]} puts data through a port to "
            f"GPU {receiver}, and no signal follows on its channel",
            rank=self.order.nodes[node].gpu,
        )

    def _check_scratch(self) -> None:
        """Check that the scratch of a GPU holds either packets or plain data."""
        for gpu, touches in enumerate(self.touches):
            if {"s", PACKETS} <= {cell.buffer for cell in touches}:
                raise ScheduleError(
                    f"{self.plan.name}: scratch of GPU {gpu} holds packets and plain "
                    "data; they may overlap",
                    rank=gpu,
                )

    def _check_begun(self, node: int, gpu: int, cells: list[Cell]) -> None:
        """Check that a GPU has begun before its input or output is accessed."""
        for cell in cells:
            if cell.buffer in "io":
                self.order.check([self._of.begin[gpu]], node, cell)

    def uses(self, gpu: int, cell: Cell) -> list[Touch]:
        """The accesses to a cell, and that of whoever has it after the plan.

        Input and output belong to others after their GPU ends.
        """
        found = self.touches[gpu][cell]
        if cell.buffer not in "io":
            return found
        return [*found, Touch(OUTSIDE, self._of.end[gpu], True, True)]
