"""What a file says: the thread blocks of each GPU, and what each does step by step."""

from dataclasses import dataclass, field
from typing import NamedTuple

from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import Cell, Cells

#: Sender, receiver and channel.
Way = tuple[int, int, int]

#: GPU, block and step.
Place = tuple[int, int, int]

#: What an instruction does: whether it receives, reduces, keeps the result, and sends.
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

    ``source`` and ``target`` are the first of so many ``chunks``; ``after`` is the
    block and the step of its GPU that it waits for.
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
        """Whether what it receives is combined with its source."""
        return "a" in KINDS[self.kind]

    @property
    def keeps(self) -> bool:
        """Whether what it has received is written to its target."""
        return "c" in KINDS[self.kind]

    @property
    def sends(self) -> bool:
        return "s" in KINDS[self.kind]

    @property
    def own(self) -> list[Cell]:
        """Those of its first chunks that are on its own GPU."""
        return [
            *([] if self.kind == "r" else [self.source]),
            *([] if self.kind == "s" else [self.target]),
        ]


@dataclass
class Block:
    """A thread block: at most one peer that it sends to, one that it receives from."""

    gpu: int
    send: int | None
    recv: int | None
    channel: int
    steps: list[Instruction] = field(default_factory=list)


@dataclass
class Program:
    """All of a file.

    Attributes
    ----------
    name : str
        Of the algorithm.
    cells : Cells
        What it is for.
    blocks : list
        The thread blocks of each GPU.
    """

    name: str
    cells: Cells
    blocks: list[list[Block]]


class Message(NamedTuple):
    """What one instruction sends to another: the places of both in the program."""

    sender: int
    receiver: int
    channel: int
    sent: Place
    taken: Place


def messages(program: Program) -> list[Message]:
    """All messages: between two GPUs on a channel the first sent is the first taken.

    Raises
    ------
    ScheduleError
        If what is sent is not taken, or is not as long as what is expected.
    """
    sent, taken = _ends(program, sends=True), _ends(program, sends=False)
    return [
        Message(*way, out, into)
        for way in sorted({*sent, *taken})
        for out, into in _paired(program, way, sent.get(way, []), taken.get(way, []))
    ]


def _ends(program: Program, *, sends: bool) -> dict[Way, list[Place]]:
    """The instructions at one end of each way, in their order."""
    found: dict[Way, list[Place]] = {}
    for gpu, blocks in enumerate(program.blocks):
        for number, block in enumerate(blocks):
            places = [
                (gpu, number, step)
                for step, what in enumerate(block.steps)
                if (what.sends if sends else what.receives)
            ]
            if not places:
                continue
            peer = block.send if sends else block.recv
            if peer is None:
                raise ScheduleError(
                    f"{program.name}: block {number} of GPU {gpu} "
                    f"{'sends' if sends else 'receives'}, but names no peer for it"
                )
            ends = (gpu, peer) if sends else (peer, gpu)
            way = (*ends, block.channel)
            if way in found:
                raise ScheduleError(
                    f"{program.name}: two blocks of GPU {gpu} use the same connection "
                    f"with GPU {peer} on channel {block.channel}"
                )
            found[way] = places
    return found


def _paired(
    program: Program, way: Way, sent: list[Place], taken: list[Place]
) -> list[tuple[Place, Place]]:
    """Both ends of each message of a way."""
    sender, receiver, channel = way
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


def instruction(program: Program, place: Place) -> Instruction:
    """The instruction at a place."""
    gpu, block, step = place
    return program.blocks[gpu][block].steps[step]
