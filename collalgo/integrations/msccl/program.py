"""The program of a file: the thread blocks of each GPU and their instructions."""

from dataclasses import dataclass, field
from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell, Cells

#: Sender, receiver and channel.
Connection = tuple[int, int, int]

#: GPU, block and step.
Position = tuple[int, int, int]

#: The actions of each instruction: r receive, a reduce, c keep the result, s send.
KINDS = {
    "nop": "",
    "cpy": "",
    "re": "",
    "s": "s",
    "r": "rc",
    "rcs": "rcs",
    "rrc": "rac",
    "rrs": "ras",
    "rrcs": "racs",
}


class Instruction(NamedTuple):
    """One step of a thread block.

    ``source`` and ``target`` are the first of ``chunks`` consecutive cells; ``after``
    is the block and the step of its GPU that it waits for.
    """

    kind: str
    source: Cell
    target: Cell
    chunks: int
    after: tuple[int, int] | None

    @property
    def receives(self) -> bool:
        return "r" in KINDS[self.kind]

    @property
    def reduces(self) -> bool:
        """Whether it combines the received value with its source."""
        return "a" in KINDS[self.kind]

    @property
    def keeps(self) -> bool:
        """Whether it writes the received or combined value to its target."""
        return "c" in KINDS[self.kind]

    @property
    def sends(self) -> bool:
        return "s" in KINDS[self.kind]

    @property
    def own(self) -> list[Cell]:
        """The first cells of its operands that are on its own GPU."""
        return [
            *([] if self.kind == "r" else [self.source]),
            *([] if self.kind == "s" else [self.target]),
        ]


@dataclass
class Block:
    """A thread block, with at most one peer to send to and one to receive from."""

    gpu: int
    send: int | None
    recv: int | None
    channel: int
    steps: list[Instruction] = field(default_factory=list)


@dataclass
class Program:
    """The program of a file.

    Attributes
    ----------
    name : str
        The name of the algorithm.
    cells : Cells
        The cells of its collective.
    blocks : list
        The thread blocks of each GPU.
    """

    name: str
    cells: Cells
    blocks: list[list[Block]]


class Message(NamedTuple):
    """A message, with the positions of its sending and receiving instructions."""

    sender: int
    receiver: int
    channel: int
    sent: Position
    taken: Position


def messages(program: Program) -> list[Message]:
    """All messages; those of a connection are received in the order of sending.

    Raises
    ------
    ScheduleError
        If sends and receives do not match in number or length.
    """
    sent, taken = _ends(program, sends=True), _ends(program, sends=False)
    return [
        Message(*connection, out, into)
        for connection in sorted({*sent, *taken})
        for out, into in _paired(
            program, connection, sent.get(connection, []), taken.get(connection, [])
        )
    ]


def _ends(program: Program, *, sends: bool) -> dict[Connection, list[Position]]:
    """The instructions at one end of each connection, in order."""
    found: dict[Connection, list[Position]] = {}
    for gpu, blocks in enumerate(program.blocks):
        for number, block in enumerate(blocks):
            places = [
                (gpu, number, step)
                for step, what in enumerate(block.steps)
                if (what.sends if sends else what.receives)
            ]
            if not places:
                continue
            peer = _peer(program, gpu, number, sends=sends)
            ends = (gpu, peer) if sends else (peer, gpu)
            connection = (*ends, block.channel)
            if connection in found:
                raise ScheduleError(
                    f"{program.name}: two blocks of GPU {gpu} use the same connection "
                    f"with GPU {peer} on channel {block.channel}"
                )
            found[connection] = places
    return found


def _peer(program: Program, gpu: int, number: int, *, sends: bool) -> int:
    """The peer of a thread block that sends, or that receives."""
    block = program.blocks[gpu][number]
    peer = block.send if sends else block.recv
    if peer is None:
        raise ScheduleError(
            f"{program.name}: block {number} of GPU {gpu} "
            f"{'sends' if sends else 'receives'}, but names no peer for it"
        )
    return peer


def _paired(
    program: Program,
    connection: Connection,
    sent: list[Position],
    taken: list[Position],
) -> list[tuple[Position, Position]]:
    """Both ends of each message of a connection."""
    sender, receiver, channel = connection
    what = f"{program.name}: GPU {sender} sends GPU {receiver} on channel {channel}"
    if len(sent) != len(taken):
        raise ScheduleError(
            f"{what} {len(sent)} messages but {len(taken)} are received there; all "
            "that is sent must be received"
        )
    for number, (out, into) in enumerate(zip(sent, taken, strict=True)):
        counts = [instruction(program, place).chunks for place in (out, into)]
        if counts[0] != counts[1]:
            raise ScheduleError(
                f"{what} {counts[0]} chunks as message {number} but {counts[1]} are "
                "received; both must be equal"
            )
    return list(zip(sent, taken, strict=True))


def instruction(program: Program, place: Position) -> Instruction:
    """The instruction at a position."""
    gpu, block, step = place
    return program.blocks[gpu][block].steps[step]
