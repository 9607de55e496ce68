"""Parse execution plans of MSCCL++.

Source: the executor of mscclpp (execution_plan.cc) and its Python DSL.
"""

from collections import Counter, defaultdict
from pathlib import Path

from collalgo.base.json_files import parse_json
from collalgo.errors import ScheduleError
from collalgo.integrations.msccl.cells import NAMES, Cells
from collalgo.integrations.mscclpp.fields import Fields
from collalgo.integrations.mscclpp.plan import (
    FOREIGN,
    LOCAL_TARGET,
    PACKETS,
    PLAIN,
    SHAPES,
    Channel,
    Operation,
    Plan,
    Span,
)
from collalgo.integrations.schedule_files import read_schedule

#: The most bytes, GPUs, blocks of a GPU, operations of a block and chunks of a buffer.
LARGEST, GPUS, BLOCKS, OPERATIONS, CHUNKS = 1 << 26, 1024, 1024, 30_000, 1 << 16

#: The most chunks that all operations of a plan access.
ACCESSES = 1 << 19

#: The buffers, by the names of files.
BUFFERS = ("i", "o", "s")


def lengths(cells: Cells) -> dict[str, int]:
    """The chunks of the input and the output of a rank."""
    one, whole = cells.each, cells.chunks
    match cells.collective:
        case "allgather":
            return {"i": one, "o": whole}
        case "reduce_scatter":
            return {"i": whole, "o": one}
        case _:
            return {"i": whole, "o": whole}


def read(path: str | Path) -> Plan:
    """Read the plan of a file.

    Raises
    ------
    ScheduleError
        If the file cannot be read or is too large, is not an execution plan, or has a
        collective or an operation that is not supported.
    """
    return read_schedule(path, LARGEST, parse)


def parse(text: str, name: str = "schedule") -> Plan:
    """Parse the plan of a text; ``name`` is the default for its name."""
    if len(text) > LARGEST:
        raise ScheduleError(f"more than {LARGEST} bytes")
    try:
        document = Fields(parse_json(text), "the plan")
    except ValueError as error:
        raise ScheduleError(str(error)) from None
    return Parser(document, name).plan()


class Parser:
    """Parses the document of a plan."""

    def __init__(self, document: Fields, name: str):
        self._document = document
        self._gpus = document.documents("gpus", 1, GPUS)
        self._left = ACCESSES
        self._plan = Plan(document.text("name", name), self._cells())

    def plan(self) -> Plan:
        """The plan."""
        self._lengths = [self._lengths_of(gpu) for gpu in self._gpus]
        for number, gpu in enumerate(self._gpus):
            channels, remote = self._channels(gpu), self._remote(gpu)
            blocks = enumerate(gpu.documents("threadblocks", 0, BLOCKS))
            self._plan.blocks.append(
                [self._block(number, *block, channels, remote) for block in blocks]
            )
            self._plan.semaphores.append(
                [
                    each.number("init_value", 0, OPERATIONS)
                    for each in gpu.documents("semaphores", 0, CHUNKS)
                ]
            )
        return self._plan

    def _cells(self) -> Cells:
        """The cells of the collective."""
        known = {name.replace("_", ""): found for name, found in NAMES.items()}
        given = self._document.text("collective")
        collective = known.get(given.replace("_", "").lower())
        if collective is None:
            raise ScheduleError(
                f"collective {given!r} cannot be read; choose one of "
                + ", ".join(dict.fromkeys(NAMES.values()))
            )
        for number, gpu in enumerate(self._gpus):
            gpu.number("id", number, number)
        in_place = self._document.flag("inplace")
        first = self._gpus[0]
        ends = ("input_chunks", "output_chunks")
        chunks = max(first.number(end, 0, 1 << 31) for end in ends)
        if not chunks:
            raise ScheduleError("GPU 0 has neither input nor output chunks")
        return Cells.of(collective, len(self._gpus), chunks, in_place)

    def _lengths_of(self, gpu: Fields) -> dict[str, int]:
        """The chunks of the buffers of a GPU; one that is not used may have none."""
        found = {"s": gpu.number("scratch_chunks", 0, CHUNKS, 0)}
        for buffer, wanted in lengths(self._plan.cells).items():
            end = "input_chunks" if buffer == "i" else "output_chunks"
            found[buffer] = gpu.number(end, 0, CHUNKS)
            if found[buffer] not in (0, wanted):
                raise ScheduleError(
                    f"{gpu.where}: {end} is {found[buffer]}; this "
                    f"{self._plan.cells.collective} needs {wanted}"
                )
        return found

    def _remote(self, gpu: Fields) -> list[tuple[int, str]]:
        """The remote buffers of a GPU: their GPU and name."""
        most = len(self._gpus) - 1
        return [
            (each.number("rank", 0, most), each.text("type", among=BUFFERS))
            for each in gpu.documents("remote_buffers", 0, CHUNKS)
        ]

    @staticmethod
    def _channels(gpu: Fields) -> dict[str, list[Channel]]:
        """The channels of a GPU by their type, each with its peer."""
        found: dict[str, list[Channel]] = defaultdict(list)
        seen: Counter[tuple[str, int]] = Counter()
        number = gpu.number("id", 0, GPUS)
        for group in gpu.documents("channels", 0, CHUNKS):
            kind = group.text("channel_type")
            if kind == "switch":
                raise ScheduleError(
                    f"{group.where}: a switch reduces or multicasts data, which a "
                    "schedule cannot express"
                )
            for peer in group.numbers("connected_to", 0, GPUS):
                found[kind].append(Channel(kind, number, peer, seen[kind, peer]))
                seen[kind, peer] += 1
        return found

    def _block(
        self,
        gpu: int,
        place: int,
        block: Fields,
        of_gpu: dict[str, list[Channel]],
        remote: list[tuple[int, str]],
    ) -> list[Operation]:
        """The operations of a thread block, which numbers what it uses of its GPU."""
        block.number("id", place, place)
        channels: dict[str, list[Channel]] = defaultdict(list)
        for group in block.documents("channels", 0, CHUNKS):
            kind = group.text("channel_type")
            ids = group.numbers("channel_ids", 0, len(of_gpu[kind]) - 1)
            channels[kind] += [of_gpu[kind][i] for i in ids]
        buffers: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for group in block.documents("remote_buffer_refs", 0, CHUNKS):
            ids = group.numbers("remote_buffer_ids", 0, len(remote) - 1)
            buffers[group.text("access_channel_type")] += [remote[i] for i in ids]
        operations = block.documents("ops", 0, OPERATIONS)
        return [self._operation(gpu, each, channels, buffers) for each in operations]

    def _operation(
        self,
        gpu: int,
        given: Fields,
        channels: dict[str, list[Channel]],
        buffers: dict[str, list[tuple[int, str]]],
    ) -> Operation:
        kind = given.text("name")
        _check_kind(kind, given)
        way = given.text("channel_type", "none", among=("memory", "port", "none"))
        ids = given.numbers("channel_ids", 0, len(channels[way]) - 1)
        barrier = None
        if kind == "barrier":
            count = given.number("num_threadblocks", 1, BLOCKS)
            barrier = given.number("barrier_id", 0, CHUNKS), count
        found = Operation(
            kind,
            *self._spans(gpu, kind, given, buffers[way], way),
            tuple(channels[way][i] for i in ids),
            barrier,
            tuple(given.numbers("semaphore_ids", 0, CHUNKS)),
        )
        _check(found, given.where, gpu)
        return found

    def _spans(
        self,
        gpu: int,
        kind: str,
        given: Fields,
        buffers: list[tuple[int, str]],
        way: str,
    ) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """The sources and targets of an operation."""
        if kind not in SHAPES:
            return (), ()
        shape = SHAPES[kind]
        firsts = (shape.packets_in, shape.packets_out)
        if kind == "ppkt" and way == "port":  # packets are put as they are
            firsts = (0, 0)
        sources, targets = (
            tuple(
                self._span(gpu, each, buffers, first is not None and place >= first)
                for place, each in enumerate(given.documents(end, 1, CHUNKS))
            )
            for end, first in zip(("src_buff", "dst_buff"), firsts, strict=True)
        )
        return sources, targets

    def _span(
        self,
        gpu: int,
        given: Fields,
        buffers: list[tuple[int, str]],
        is_packets: bool,
    ) -> Span:
        if given.has("buffer_id"):
            gpu, buffer = buffers[given.number("buffer_id", 0, len(buffers) - 1)]
        else:
            buffer = given.text("type", among=BUFFERS)
        first, count = given.number("index", 0, CHUNKS), given.number("size", 1, CHUNKS)
        length = self._lengths[gpu][buffer]
        if first + count > length:
            raise ScheduleError(
                f"{given.where}: chunks {first} to {first + count - 1} of buffer "
                f"{buffer!r} of GPU {gpu}, which has {length}"
            )
        self._left -= count
        if self._left < 0:
            raise ScheduleError(f"the operations access more than {ACCESSES} chunks")
        if is_packets:
            if buffer != "s":
                raise ScheduleError(f"{given.where}: packets can only be in scratch")
            buffer = PACKETS
        return Span(gpu, buffer, first, count)


def _check_kind(kind: str, given: Fields) -> None:
    """Check that an operation can be read."""
    if kind in FOREIGN:
        raise ScheduleError(
            f"{given.where}: {kind} is {FOREIGN[kind]}, which a schedule cannot express"
        )
    if kind not in PLAIN and kind not in SHAPES:
        raise ScheduleError(f"{given.where}: unknown operation {kind!r:.40}")
    if given.has("tbg_info"):
        raise ScheduleError(f"{given.where}: groups of thread blocks cannot be read")
    given.text("reduce_op", "sum", among=("sum",))


def _check(operation: Operation, where: str, gpu: int) -> None:
    """Check the number, lengths and places of the operands of an operation."""
    if operation.kind in PLAIN:
        return
    sources, targets = operation.sources, operation.targets
    if SHAPES[operation.kind].form == "pairs" and len(sources) != len(targets):
        raise ScheduleError(f"{where}: {len(sources)} sources, {len(targets)} targets")
    if operation.kind in LOCAL_TARGET and targets[0].gpu != gpu:
        raise ScheduleError(f"{where}: the first target must be on its own GPU")
    for source, target, _ in operation.moves():
        _check_move(source, target, where, gpu)
    peers = [channel.peer for channel in operation.channels]
    ends = [span.gpu for span in targets if span.gpu != gpu]
    if peers != ends and operation.kind in ("pws", "pwsf"):
        raise ScheduleError(
            f"{where}: its channels lead to GPUs {peers} and its data to {ends}"
        )


def _check_move(source: Span, target: Span, where: str, gpu: int) -> None:
    if source.chunks != target.chunks:
        raise ScheduleError(
            f"{where}: {source.chunks} chunks of a source and {target.chunks} of a "
            "target; both must be equal"
        )
    if gpu not in (source.gpu, target.gpu):
        raise ScheduleError(f"{where}: neither end is on its own GPU")
    apart = source[:2] != target[:2] or source == target
    if not apart and abs(source.first - target.first) < source.chunks:
        raise ScheduleError(f"{where}: source and target overlap")
