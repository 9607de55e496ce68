"""Format execution plans of MSCCL++ as JSON."""

import json
from typing import Any

from collalgo.base import output_files
from collalgo.integrations.msccl.msccl import exceeded
from collalgo.integrations.mscclpp.parsing import lengths
from collalgo.integrations.mscclpp.plan import SHAPES, Channel, Operation, Plan, Span

PLAN = output_files.Format("an execution plan of MSCCL++", endings=("json",))

#: The limits of MSCCL++ itself: operations of a block, and channels of a block.
OPERATIONS_TAKEN, CHANNELS_TAKEN = 64, 16

#: The names of the collectives in files.
NAMES = {"reduce_scatter": "reducescatter"}


def beyond(plan: Plan) -> list[str]:
    """The limits of MSCCL++ that a plan exceeds, as sentences."""
    blocks = [block for of_gpu in plan.blocks for block in of_gpu]
    longest = max(map(len, blocks), default=0)
    widest = max((len(_channels(block)) for block in blocks), default=0)
    found = {
        f"{OPERATIONS_TAKEN} operations in a block": (longest, OPERATIONS_TAKEN),
        f"{CHANNELS_TAKEN} channels of a block": (widest, CHANNELS_TAKEN),
    }
    return exceeded("MSCCL++", found)


def text_of(plan: Plan) -> str:
    """Format a plan as JSON."""
    cells = plan.cells
    document = {
        "name": plan.name,
        "collective": NAMES.get(cells.collective, cells.collective),
        "protocol": "Simple",
        "inplace": cells.in_place,
        "reuse_resources": False,
        "gpus": [GpuDocument(plan, gpu).fields() for gpu in range(cells.size)],
        "num_threads_per_block": 1024,
        "use_double_scratch_buffer": False,
        "buffer_alignment": 16,
        "min_message_size": 0,
        "max_message_size": (1 << 64) - 1,
        "maker": PLAN.mark,
    }
    return json.dumps(document, indent=1) + "\n"


def _channels(block: list[Operation]) -> list[Channel]:
    """The channels that a block uses."""
    return list(dict.fromkeys(c for operation in block for c in operation.channels))


class GpuDocument:
    """The document of one GPU.

    Parameters
    ----------
    plan
        The plan, whose channels have one type.
    gpu
        The GPU.
    """

    def __init__(self, plan: Plan, gpu: int):
        self._plan, self._gpu = plan, gpu
        self._blocks = plan.blocks[gpu]
        used = {c for block in self._blocks for c in _channels(block)}
        self._channels = sorted(used)
        self._type = self._channels[0].type if used else "memory"
        every = {where for block in self._blocks for where in self._remote(block)}
        self._buffers = sorted(every)

    def fields(self) -> dict[str, Any]:
        """The fields of the GPU."""
        chunks = lengths(self._plan.cells)
        return {
            "id": self._gpu,
            "input_chunks": chunks["i"],
            "output_chunks": chunks["o"],
            "scratch_chunks": self._scratch(),
            "threadblocks": [self._block(*each) for each in enumerate(self._blocks)],
            "channels": self._listed(
                connected_to=[channel.peer for channel in self._channels]
            ),
            "remote_buffers": [
                {"rank": rank, "type": kind, "access_channel_types": [self._type]}
                for rank, kind in self._buffers
            ],
            "semaphores": [
                {"init_value": value} for value in self._plan.semaphores[self._gpu]
            ],
        }

    def _listed(self, **numbers: list[int]) -> list[dict[str, Any]]:
        """Numbers of the channels of their type, if there are any."""
        found = {"channel_type": self._type, **numbers}
        return [found] if any(numbers.values()) else []

    def _scratch(self) -> int:
        """The chunks of scratch, of which other GPUs write some."""
        ends = [
            span.first + span.chunks
            for blocks in self._plan.blocks
            for block in blocks
            for operation in block
            for span in (*operation.sources, *operation.targets)
            if span[:2] == (self._gpu, "s")
        ]
        return max(ends, default=0)

    def _remote(self, block: list[Operation]) -> list[tuple[int, str]]:
        """The buffers of other GPUs that a block accesses."""
        spans = [
            span
            for operation in block
            for span in (*operation.sources, *operation.targets)
            if span.gpu != self._gpu
        ]
        return list(dict.fromkeys((span.gpu, span.buffer) for span in spans))

    def _block(self, number: int, block: list[Operation]) -> dict[str, Any]:
        channels, buffers = _channels(block), self._remote(block)
        ids = [self._channels.index(channel) for channel in channels]
        refs = [self._buffers.index(where) for where in buffers]
        kind = {"access_channel_type": self._type}
        return {
            "id": number,
            "ops": [self._operation(each, channels, buffers) for each in block],
            "channels": self._listed(channel_ids=ids),
            "remote_buffer_refs": [kind | {"remote_buffer_ids": refs}] if refs else [],
        }

    def _operation(
        self,
        operation: Operation,
        channels: list[Channel],
        buffers: list[tuple[int, str]],
    ) -> dict[str, Any]:
        found: dict[str, Any] = {"name": operation.kind}
        if operation.kind in SHAPES:
            for name, spans in zip(
                ("src_buff", "dst_buff"), operation[1:3], strict=True
            ):
                found[name] = [self._span(span, buffers) for span in spans]
        if operation.channels:
            found["channel_ids"] = [channels.index(c) for c in operation.channels]
        if operation.channels or operation.kind == "put":
            found["channel_type"] = self._type
        if operation.kind == "re":
            found["reduce_op"] = "sum"
        if operation.semaphores:
            found["semaphore_ids"] = list(operation.semaphores)
        return found

    def _span(self, span: Span, buffers: list[tuple[int, str]]) -> dict[str, Any]:
        if span.gpu == self._gpu:
            where: dict[str, Any] = {"type": span.buffer}
        else:
            where = {"buffer_id": buffers.index((span.gpu, span.buffer))}
        return {**where, "index": span.first, "size": span.chunks}
