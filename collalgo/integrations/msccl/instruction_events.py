"""The events of the instructions of an MSCCL file, and their accesses to cells."""

from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.events import Event, Events, Touch
from collalgo.integrations.msccl.order import cells_from, ordered
from collalgo.integrations.msccl.program import Message, Program, instruction


class InstructionEvents(Events):
    """The events of a program: first the messages, in the given order."""

    def __init__(self, program: Program, messages: list[Message]):
        order = ordered(program, messages)
        super().__init__(order, len(program.blocks))
        self.program = program
        at = {node[:3]: i for i, node in enumerate(order.nodes)}
        self._sends = {at[m.sent]: i for i, m in enumerate(messages)}
        self._takes = {at[m.taken]: i for i, m in enumerate(messages)}
        self.events = [Event(m, m.receiver, "message") for m in messages]
        for number in order.sequence:
            self._unroll(number)

    def _unroll(self, number: int) -> None:
        """Record the events and accesses of an instruction."""
        gpu = self.order.nodes[number].gpu
        what = instruction(self.program, self.order.nodes[number][:3])
        source = self._named(gpu, what.source, what.chunks)
        target = self._named(gpu, what.target, what.chunks)
        if what.kind in ("cpy", "re"):
            self.inside(number, gpu, what.kind == "re", source, target)
            return
        if what.receives:
            if what.reduces and not what.keeps:  # the sum is forwarded, not stored
                target = [Cell(f"sum of {number}", cell.number) for cell in target]
            if what.reduces and source != target:
                self.inside(number, gpu, False, source, target)
            event = self.events[self._takes[number]]
            event.targets, event.adds = target, [what.reduces] * len(target)
            take = Touch(self._takes[number], number, what.reduces, True)
            self.touch(gpu, target, take)
        if what.sends:
            sent = target if what.receives else source
            self.events[self._sends[number]].sources = sent
            self.touch(gpu, sent, Touch(self._sends[number], number, True, False))

    def _named(self, gpu: int, first: Cell, count: int) -> list[Cell]:
        named = self.program.cells.named
        return [named(gpu, cell) for cell in cells_from(first, count)]
