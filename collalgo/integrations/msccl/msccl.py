"""Parse and write MSCCL XML.

An ``algo`` contains a ``gpu`` for each rank, a ``gpu`` a ``tb`` for each thread block,
and a ``tb`` its ``step`` elements. Source: the compiler msccl-tools and the parser of
msccl.
"""

from collections import Counter
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from collalgo.base import output_files
from collalgo.errors import ScheduleError, TopologyError
from collalgo.integrations.msccl.cells import NAMES, Cell, Cells
from collalgo.integrations.msccl.program import KINDS, Block, Instruction, Program
from collalgo.integrations.schedule_files import read_schedule
from collalgo.topology.readers.text import xml
from collalgo.topology.values import integer

MSCCL = output_files.Format("an algorithm of MSCCL", endings=("xml",))

#: The most bytes, GPUs, channels and chunks of a file.
LARGEST, GPUS, CHANNELS, CHUNKS = 1 << 26, 1024, 64, 1 << 16

#: The most steps of a thread block.
STEPS = (1 << 16) - 2

#: The limits of MSCCL itself: steps of a block, and blocks on a channel of a GPU.
STEPS_TAKEN, BLOCKS_TAKEN = 256, 32

#: The numeric attributes of a step: the least value, and the default.
NUMBERS = {
    "srcoff": (-1, -1),
    "dstoff": (-1, -1),
    "cnt": (0, 1),
    "depid": (-1, -1),
    "deps": (-1, -1),
}

#: The cell of a ``nop``, whose offsets are ignored.
NOTHING = Cell("i", 0)


def read(path: str | Path) -> Program:
    """Read the program of a file.

    Raises
    ------
    ScheduleError
        If the file cannot be read or is too large, is not MSCCL XML, or its collective
        is not supported.
    """
    return read_schedule(path, LARGEST, parse)


def parse(text: str, name: str = "schedule") -> Program:
    """Parse the program of a text; ``name`` is the default for its name."""
    if len(text) > LARGEST:
        raise ScheduleError(f"more than {LARGEST} bytes")
    try:
        return _program(xml(text), name)
    except TopologyError as error:  # from the readers of XML and numbers
        raise ScheduleError(str(error)) from None


def _program(algo: Any, name: str) -> Program:
    if algo.tag != "algo":
        raise ScheduleError(f"the root element is <{algo.tag}>; MSCCL XML has <algo>")
    collective = NAMES.get(algo.get("coll", ""))
    if collective is None:
        raise ScheduleError(
            f"coll {algo.get('coll')!r} cannot be read; choose one of "
            + ", ".join(dict.fromkeys(NAMES.values()))
        )
    gpus = algo.findall("gpu")
    size = integer(algo.get("ngpus", len(gpus)), "ngpus", 1, GPUS)
    if sorted(integer(gpu.get("id"), "id of gpu") for gpu in gpus) != [*range(size)]:
        raise ScheduleError(f"with ngpus={size} the GPUs need the ids 0 to {size - 1}")
    chunks = integer(algo.get("nchunksperloop"), "nchunksperloop", 1, CHUNKS)
    in_place = integer(algo.get("inplace", 0), "inplace", 0, 1) == 1
    cells = Cells.of(collective, size, chunks, in_place)
    blocks: list[list[Block]] = [[] for _ in gpus]
    for gpu in gpus:
        number, found = int(gpu.get("id")), enumerate(gpu.findall("tb"))
        blocks[number] = [_block(tb, number, size, place) for place, tb in found]
    return Program(algo.get("name") or name, cells, blocks)


def _block(tb: Any, gpu: int, size: int, place: int) -> Block:
    """Parse a thread block; blocks and steps must be in the order of their ids."""
    where = f"tb {place} of gpu {gpu}"
    if integer(tb.get("id"), f"id of {where}") != place:
        raise ScheduleError(f"{where} has the id {tb.get('id')}, out of order")
    send, recv = (
        integer(tb.get(direction, -1), f"{direction} of {where}", -1, size - 1)
        for direction in ("send", "recv")
    )
    channel = integer(tb.get("chan", 0), f"chan of {where}", -1, CHANNELS)
    steps = [
        _instruction(step, f"step {number} of {where}", number)
        for number, step in enumerate(tb.findall("step"))
    ]
    if len(steps) > STEPS:
        raise ScheduleError(f"{where} has {len(steps)} steps, more than {STEPS}")
    return Block(gpu, _peer(send), _peer(recv), max(channel, 0), steps)


def _peer(number: int) -> int | None:
    return None if number < 0 else number


def _instruction(step: Any, where: str, place: int) -> Instruction:
    kind = step.get("type")
    if kind not in KINDS:
        raise ScheduleError(
            f"{where}: unknown type {kind!r}; choose from {', '.join(KINDS)}"
        )
    if integer(step.get("s"), f"s of {where}") != place:
        raise ScheduleError(f"{where} has the number {step.get('s')}, out of order")
    source, target, chunks, block, after = (
        integer(step.get(name, default), f"{name} of {where}", least, CHUNKS)
        for name, (least, default) in NUMBERS.items()
    )
    awaited = (block, after) if block >= 0 else None
    if kind == "nop":
        return Instruction(kind, NOTHING, NOTHING, 0, awaited)
    ends = [Cell(_buffer(step, "srcbuf", where), source)]
    ends.append(Cell(_buffer(step, "dstbuf", where), target))
    return Instruction(kind, ends[0], ends[1], chunks, awaited)


def _buffer(step: Any, name: str, where: str) -> str:
    found = step.get(name)
    if found not in ("i", "o", "s"):
        raise ScheduleError(f"{where}: {name} {found!r} must be i, o or s")
    return str(found)


def beyond(program: Program) -> list[str]:
    """The limits of MSCCL that a program exceeds, as sentences."""
    blocks = [block for of_gpu in program.blocks for block in of_gpu]
    steps = max((len(block.steps) for block in blocks), default=0)
    together = Counter((block.gpu, block.channel) for block in blocks)
    crowded = max(together.values(), default=0)
    found = {
        f"{STEPS_TAKEN} steps in a block": (steps, STEPS_TAKEN),
        f"{BLOCKS_TAKEN} blocks on a channel": (crowded, BLOCKS_TAKEN),
    }
    return exceeded("MSCCL", found)


def exceeded(taker: str, counts: dict[str, tuple[int, int]]) -> list[str]:
    """A sentence for each count that exceeds the limit of a library."""
    return [
        f"{taker} takes at most {what}, and this has {count}"
        for what, (count, most) in counts.items()
        if count > most
    ]


def text_of(program: Program, protocol: str = "Simple") -> str:
    """Format a program as XML, for a protocol of NCCL."""
    algo = Element("algo", _texts(_algorithm(program, protocol)))
    for number, blocks in enumerate(program.blocks):
        chunks = chunks_of(program.cells, blocks)
        gpu = SubElement(algo, "gpu", _texts({"id": number, **chunks}))
        awaited = {step.after for block in blocks for step in block.steps}
        for place, block in enumerate(blocks):
            _add_block(gpu, place, block, awaited)
    indent(algo)
    return f"{tostring(algo, encoding='unicode')}\n<!-- {MSCCL.mark} -->\n"


def _algorithm(program: Program, protocol: str) -> dict[str, Any]:
    """The attributes of the ``algo`` of a program."""
    cells = program.cells
    channels = [block.channel for blocks in program.blocks for block in blocks]
    return {
        "name": program.name,
        "proto": protocol,
        "nchannels": max(channels, default=0) + 1,
        "nchunksperloop": cells.chunks,
        "ngpus": cells.size,
        "coll": cells.collective,
        "inplace": int(cells.in_place),
        "outofplace": int(not cells.in_place),
        "minBytes": 0,
        "maxBytes": 0,
    }


def _add_block(
    gpu: Element, place: int, block: Block, awaited: set[tuple[int, int] | None]
) -> None:
    """Add a ``tb`` to its ``gpu``; ``awaited`` are the steps that others wait for."""
    peers = {"send": block.send, "recv": block.recv}
    numbers = {name: -1 if peer is None else peer for name, peer in peers.items()}
    ends = {"id": place, **numbers, "chan": block.channel}
    tb = SubElement(gpu, "tb", _texts(ends))
    for s, step in enumerate(block.steps):
        has_dependents = int((place, s) in awaited)
        SubElement(tb, "step", _texts(_step(s, step, has_dependents)))


def _step(number: int, step: Instruction, has_dependents: int) -> dict[str, Any]:
    """The attributes of a ``step``."""
    block, after = step.after or (-1, -1)
    return {
        "s": number,
        "type": step.kind,
        "srcbuf": step.source.buffer,
        "srcoff": step.source.number,
        "dstbuf": step.target.buffer,
        "dstoff": step.target.number,
        "cnt": step.chunks,
        "depid": block,
        "deps": after,
        "hasdep": has_dependents,
    }


def chunks_of(cells: Cells, blocks: list[Block]) -> dict[str, int]:
    """The number of chunks of each buffer of a GPU."""
    found = {"i_chunks": cells.chunks, "o_chunks": cells.chunks, "s_chunks": 0}
    shorter = {"allgather": "i_chunks", "reduce_scatter": "o_chunks"}
    if cells.collective in shorter:
        found[shorter[cells.collective]] = cells.each
    ends = [
        cell.number + step.chunks
        for block in blocks
        for step in block.steps
        for cell in step.own
        if cell.buffer == "s"
    ]
    return {**found, "s_chunks": max(ends, default=0)}


def _texts(attributes: dict[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in attributes.items()}
