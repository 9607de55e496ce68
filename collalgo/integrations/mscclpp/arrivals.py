"""The place where each message of a program arrives in the memory of its receiver.

A message of MSCCL waits in a buffer of the connection until its receiver takes it; a
put of MSCCL++ writes the memory of the receiver at once. It may write the target of the
receive if nothing accesses the target before, or after a signal of the receiver that it
is ready. Where such signals would make a cycle, as in an exchange, and where the
receive adds, it writes scratch of its own.
"""

from collections import deque
from enum import Enum

from collalgo.integrations.msccl.cells import Cell
from collalgo.integrations.msccl.events import Touches
from collalgo.integrations.msccl.instruction_events import InstructionEvents
from collalgo.integrations.msccl.program import Message, Program, instruction


class Arrival(Enum):
    """Where a message arrives, and when."""

    AT_ONCE = "in its target at any time"
    READY = "in its target, after a signal of the receiver"
    SCRATCH = "in scratch"


def arrivals(program: Program, messages: list[Message]) -> list[Arrival]:
    """The arrival of each message of a program."""
    events = InstructionEvents(program, messages)
    found = [
        _arrival(program, message, number, events.touches[message.receiver])
        for number, message in enumerate(messages)
    ]
    stuck = _stuck(events, messages, found)
    return [Arrival.SCRATCH if i in stuck else each for i, each in enumerate(found)]


def _arrival(
    program: Program, message: Message, number: int, touches: Touches
) -> Arrival:
    """The arrival of a message, if signals of receivers make no cycle."""
    taken = instruction(program, message.taken)
    if taken.reduces:
        return Arrival.SCRATCH
    first, count = taken.target, taken.chunks
    cells = (Cell(first.buffer, first.number + i) for i in range(count))
    named = [program.cells.named(message.receiver, cell) for cell in cells]
    is_first = all(touches[cell][0].event == number for cell in named)
    return Arrival.AT_ONCE if is_first else Arrival.READY


def _stuck(
    events: InstructionEvents, messages: list[Message], found: list[Arrival]
) -> set[int]:
    """The messages whose receivers would signal that they are ready in a cycle.

    A receive has two nodes: the signal, which waits for what is before it in its block,
    and the end, which waits for the message.
    """
    at = {node[:3]: i for i, node in enumerate(events.order.nodes)}
    count = len(at)
    before = [list(each) for each in events.order.before]
    ready = [i for i, each in enumerate(found) if each is Arrival.READY]
    for signal, i in enumerate(ready, count):
        sent, taken = at[messages[i].sent], at[messages[i].taken]
        before.append([one for one in before[taken] if one != sent])
        before[taken].append(signal)
        before[sent].append(signal)
    reached = _reached(before)
    return {i for signal, i in enumerate(ready, count) if signal not in reached} | {
        i for i in ready if at[messages[i].sent] not in reached
    }


def _reached(before: list[list[int]]) -> set[int]:
    """The nodes that can run."""
    after: list[list[int]] = [[] for _ in before]
    for node, awaited in enumerate(before):
        for one in awaited:
            after[one].append(node)
    missing = list(map(len, before))
    able = deque(node for node, count in enumerate(missing) if not count)
    reached = set(able)
    while able:
        for node in after[able.popleft()]:
            missing[node] -= 1
            if not missing[node]:
                reached.add(node)
                able.append(node)
    return reached
