"""A backend of ``torch.distributed``: ``init_process_group("collalgo")``.

With collalgo installed, torch finds it by itself. It serves tensors in the memory of
the host, without copies where they are contiguous. Ranks meet over the store of torch;
those of one host then share memory, others use UCX.
"""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from collalgo._kernels.progress import Work
from collalgo.bootstrap.launched import meet_over
from collalgo.bootstrap.places import TorchBoard
from collalgo.communicator import Communicator
from collalgo.pairs import Message

Array = NDArray[Any]

#: The dtypes of torch that NumPy knows by way of ``ml_dtypes``, and their words.
NARROW = {
    torch.bfloat16: ("bfloat16", torch.uint16),
    torch.float8_e4m3fn: ("float8_e4m3fn", torch.uint8),
    torch.float8_e4m3fnuz: ("float8_e4m3fnuz", torch.uint8),
    torch.float8_e5m2: ("float8_e5m2", torch.uint8),
    torch.float8_e5m2fnuz: ("float8_e5m2fnuz", torch.uint8),
}

OPS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "avg",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "band",
    dist.ReduceOp.BOR: "bor",
    dist.ReduceOp.BXOR: "bxor",
}


def array_of(tensor: Tensor) -> Array:
    """A NumPy array on the memory of a tensor.

    Raises
    ------
    TypeError
        If the tensor is sparse, or not in the memory of the host.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.dtype in NARROW:
        import ml_dtypes

        name, word = NARROW[tensor.dtype]
        narrow: Array = tensor.view(word).numpy().view(getattr(ml_dtypes, name))
        return narrow
    try:
        array: Array = tensor.numpy()
    except (TypeError, RuntimeError) as error:
        raise TypeError(
            f"collalgo: a tensor of {tensor.dtype} on {tensor.device} cannot be "
            f"communicated ({error}); pass a dense tensor in the memory of the host"
        ) from None
    return array


def flat(tensor: Tensor) -> Array:
    """The elements of a contiguous tensor in one row, in its own memory."""
    return array_of(tensor.view(-1))


def row_of(tensors: Sequence[Tensor]) -> Array | None:
    """The elements of tensors that lie one behind the other in one memory, or None."""
    first, end = tensors[0], tensors[0].data_ptr()
    memory = first.untyped_storage().data_ptr()
    for tensor in tensors:
        if (
            tensor.data_ptr() != end
            or not tensor.is_contiguous()
            or tensor.dtype != first.dtype
            or tensor.untyped_storage().data_ptr() != memory
        ):
            return None
        end += tensor.numel() * tensor.element_size()
    total = sum(tensor.numel() for tensor in tensors)
    return array_of(first.as_strided((total,), (1,)))


class Target:
    """The memory that a result goes to on its way into tensors: if possible, theirs."""

    def __init__(self, tensors: Sequence[Tensor]):
        self._tensors = tensors
        row = row_of(tensors)
        self._apart = row is None
        if row is None:
            total = sum(tensor.numel() for tensor in tensors)
            row = np.empty(total, array_of(tensors[0][..., :0]).dtype)
        self.row = row

    def finish(self) -> None:
        """Bring the result into the tensors if it is not there."""
        if self._apart:
            start = 0
            for tensor in self._tensors:
                part = self.row[start : start + tensor.numel()]
                array_of(tensor)[...] = part.reshape(tensor.shape)
                start += tensor.numel()


def source_of(tensors: Sequence[Tensor]) -> Array:
    """The elements of all the tensors in one row, copied only if they are scattered."""
    row = row_of(tensors)
    if row is not None:
        return row
    return np.concatenate([array_of(tensor).reshape(-1) for tensor in tensors])


class GroupWork(dist.Work):
    """What torch waits for: some calls, and what is to be done after them.

    Parameters
    ----------
    works
        The calls that go on in the background, in their order.
    tensors
        What they write.
    finish
        Called once when they have ended well.
    """

    def __init__(
        self,
        works: Sequence[Work | Message],
        tensors: list[Tensor],
        finish: Sequence[Callable[[], None]] = (),
    ):
        super().__init__()
        self.works = list(works)
        self.tensors = tensors
        self.finish = list(finish)

    def _end(self) -> None:
        while self.finish:
            self.finish.pop(0)()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        seconds = timeout.total_seconds()
        for work in self.works:
            work.wait(seconds if seconds > 0 else None)
        self._end()
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return all(work.done() for work in self.works)

    def is_success(self) -> bool:
        return self.is_completed() and self.exception() is None

    def exception(self) -> BaseException | None:
        errors = (work.exception() for work in self.works if work.done())
        return next((error for error in errors if error is not None), None)

    def result(self) -> list[Tensor]:
        self.wait()
        return self.tensors

    def get_future(self) -> Any:
        future: Any = torch.futures.Future()
        if self.works:
            self.works[-1].add_done_callback(lambda _: self._tell(future))
        else:
            self._tell(future)
        return future

    def _tell(self, future: Any) -> None:
        error = self.exception()
        if error is None:
            self._end()
            future.set_result(self.tensors)
        else:
            future.set_exception(error)


def _timeout(opts: Any) -> float | None:
    seconds: float = opts.timeout.total_seconds()
    return seconds if seconds > 0 else None


class CollalgoGroup(dist.ProcessGroup):
    """A process group of torch on a communicator.

    Parameters
    ----------
    comm
        The communicator.
    store
        The store of torch for this group.
    """

    def __init__(self, comm: Communicator, store: dist.Store):
        super().__init__(comm.rank, comm.size)
        self.comm = comm
        self._store = store
        self._name = self._description = ""
        self._coalesced: list[GroupWork] | None = None

    # What the C++ of torch asks for by these names.

    def getBackendName(self) -> str:
        return "collalgo"

    def getGroupName(self) -> str:
        return self._name

    def setGroupName(self, name: str) -> None:
        self._name = name

    def getGroupDesc(self) -> str:
        return self._description

    def setGroupDesc(self, description: str) -> None:
        self._description = description

    def get_group_store(self) -> dist.Store:
        return self._store

    # ---- how a call is made

    def _make(
        self,
        call: str,
        opts: Any,
        tensors: list[Tensor],
        *args: Any,
        finish: Callable[[], None] | None = None,
        **named: Any,
    ) -> GroupWork:
        """Make a call at once, or in the background if torch does not wait for it."""
        works, after = [], [finish] if finish else []
        if opts.asyncOp or self._coalesced is not None:
            make = getattr(self.comm, f"{call}_async")
            works.append(make(*args, timeout=_timeout(opts), **named))
        else:
            getattr(self.comm, call)(*args, timeout=_timeout(opts), **named)
            while after:
                after.pop()()
        return self._noted(GroupWork(works, tensors, after))

    def _noted(self, work: GroupWork) -> GroupWork:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _all(self, works: Sequence[GroupWork]) -> GroupWork:
        """Several calls as one."""
        return GroupWork(
            [one for work in works for one in work.works],
            [tensor for work in works for tensor in work.tensors],
            [finish for work in works for finish in work.finish],
        )

    def _start_coalescing(self, _device: torch.device) -> None:
        self._coalesced = []

    def _end_coalescing(self, _device: torch.device) -> GroupWork:
        works, self._coalesced = self._coalesced or [], None
        return self._all(works)

    def _operands(self, array: Array, opts: Any) -> tuple[Array, str]:
        """What is to be reduced, and by which op."""
        op = opts.reduceOp.op
        if op == dist.ReduceOp.PREMUL_SUM:
            return (array * opts.reduceOp.factor).astype(array.dtype), "sum"
        if op not in OPS:
            names = ", ".join(str(known).rsplit(".", 1)[-1] for known in OPS)
            raise ValueError(f"collalgo has no {op}; choose one of {names}, PREMUL_SUM")
        return array, OPS[op]

    # ---- calls that reduce

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> GroupWork:
        opts = opts or dist.AllreduceOptions()
        return self._each(self._allreduce, tensors, opts)

    allreduce_coalesced = allreduce

    def _each(
        self, call: Callable[..., GroupWork], tensors: list[Tensor], opts: Any
    ) -> GroupWork:
        if len(tensors) == 1:
            return call(tensors[0], opts)
        return self._all([call(tensor, opts) for tensor in tensors])

    def _allreduce(self, tensor: Tensor, opts: Any) -> GroupWork:
        target = array_of(tensor)
        source, op = self._operands(target, opts)
        out = None if source is target else target
        return self._make("allreduce", opts, [tensor], source, op, out=out)

    def reduce(self, tensors: list[Tensor], opts: Any) -> GroupWork:
        target = array_of(tensors[0])
        source, op = self._operands(target, opts)
        out = None if source is target else target
        return self._make("reduce", opts, tensors, source, op, opts.rootRank, out=out)

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.ReduceScatterOptions()
        source, op = self._operands(source_of(inputs[0]), opts)
        counts = [tensor.numel() for tensor in inputs[0]]
        return self._scatter_sum(outputs[0], source, op, counts, opts)

    def reduce_scatter_single(
        self, output: Tensor, input: Tensor, opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.ReduceScatterOptions()
        source, op = self._operands(flat(input.contiguous()), opts)
        counts = [len(source) // self.comm.size] * self.comm.size
        return self._scatter_sum(output, source, op, counts, opts)

    def _scatter_sum(
        self, output: Tensor, source: Array, op: str, counts: list[int], opts: Any
    ) -> GroupWork:
        target = Target([output])
        even = None if len(set(counts)) == 1 else counts
        return self._make(
            "reduce_scatter",
            opts,
            [output],
            source,
            op,
            even,
            out=target.row,
            finish=target.finish,
        )

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        pairs = zip(outputs, inputs, strict=True)
        return self._all([self.reduce_scatter_single(o, i, opts) for o, i in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- calls that share

    def broadcast(self, tensors: list[Tensor], opts: Any) -> GroupWork:
        return self._make(
            "broadcast", opts, tensors, array_of(tensors[0]), opts.rootRank
        )

    def allgather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.AllgatherOptions()
        target = Target(outputs[0])
        counts = [tensor.numel() for tensor in outputs[0]]
        return self._make(
            "allgatherv",
            opts,
            outputs[0],
            flat(inputs[0].contiguous()),
            counts,
            out=target.row,
            finish=target.finish,
        )

    def all_gather_single(
        self, output: Tensor, input: Tensor, opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.AllgatherOptions()
        target = Target([output])
        return self._make(
            "allgather",
            opts,
            [output],
            flat(input.contiguous()),
            out=target.row.reshape(self.comm.size, -1),
            finish=target.finish,
        )

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        pairs = zip(outputs, inputs, strict=True)
        return self._all([self.all_gather_single(o, i, opts) for o, i in pairs])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        lists = [[row[i] for row in outputs] for i in range(len(inputs))]
        pairs = zip(lists, inputs, strict=True)
        return self._all([self.allgather([o], [i], opts) for o, i in pairs])

    def gather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any
    ) -> GroupWork:
        source, root = flat(inputs[0].contiguous()), opts.rootRank
        if self.comm.rank != root:
            return self._make("gather", opts, [], source, root)
        target = Target(outputs[0])
        return self._make(
            "gather",
            opts,
            outputs[0],
            source,
            root,
            out=target.row.reshape(self.comm.size, -1),
            finish=target.finish,
        )

    def scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any
    ) -> GroupWork:
        target, root = Target(outputs), opts.rootRank
        if self.comm.rank != root:
            return self._make(
                "scatter", opts, outputs, target.row, root, finish=target.finish
            )
        source = source_of(inputs[0]).reshape(self.comm.size, -1)
        return self._make(
            "scatter",
            opts,
            outputs,
            source,
            root,
            out=target.row,
            finish=target.finish,
        )

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> GroupWork:
        opts = opts or dist.AllToAllOptions()
        target, source = Target([output]), flat(input.contiguous())
        if not output_splits and not input_splits:
            return self._make(
                "alltoall",
                opts,
                [output],
                source.reshape(self.comm.size, -1),
                out=target.row.reshape(self.comm.size, -1),
                finish=target.finish,
            )
        rows = len(input) if input.dim() else 1
        splits = input_splits or [rows // self.comm.size] * self.comm.size
        width = len(source) // rows if rows else 0
        counts = [split * width for split in splits]
        return self._swap([output], source, counts, target, opts)

    alltoall_base = all_to_all_single

    def alltoall(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.AllToAllOptions()
        counts = [tensor.numel() for tensor in inputs]
        return self._swap(outputs, source_of(inputs), counts, Target(outputs), opts)

    def _swap(
        self,
        outputs: list[Tensor],
        source: Array,
        counts: list[int],
        target: Target,
        opts: Any,
    ) -> GroupWork:
        return self._make(
            "alltoallv",
            opts,
            outputs,
            source,
            counts,
            out=target.row,
            finish=target.finish,
        )

    def barrier(self, opts: Any = None) -> GroupWork:
        return self._make("barrier", opts or dist.BarrierOptions(), [])

    def monitored_barrier(
        self, timeout: timedelta = timedelta(0), _wait_all_ranks: bool = False
    ) -> None:
        """Wait for all ranks; the error names those that are missing."""
        seconds = timeout.total_seconds()
        self.comm.barrier(timeout=seconds if seconds > 0 else None)

    # ---- messages between two ranks

    def send(self, tensors: list[Tensor], to: int, tag: int) -> GroupWork:
        source = flat(tensors[0].contiguous())
        return self._noted(GroupWork([self.comm.isend(source, to, tag)], tensors))

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> GroupWork:
        target = Target(tensors)
        work = self.comm.irecv(target.row, source, tag)
        return self._noted(GroupWork([work], tensors, [target.finish]))

    def recv_anysource(self, _tensors: list[Tensor], _tag: int) -> GroupWork:
        raise NotImplementedError(
            "collalgo: a message can only be received from a rank that is named; pass "
            "src to torch.distributed.recv"
        )

    # ---- the end

    def abort(self) -> None:
        self.comm.abort("its process group was aborted")

    def shutdown(self) -> None:
        self.comm.close()

    def set_timeout(self, timeout: timedelta) -> None:
        self.comm.timeout = timeout.total_seconds()


def create(opts: Any, _backend_options: Any) -> CollalgoGroup:
    """The group that torch asks for: of a world that is there, or a new world."""
    seconds = opts.timeout.total_seconds()
    ranks = opts.global_ranks_in_group
    world = dist.group.WORLD
    if ranks and isinstance(world, CollalgoGroup) and not world.comm.closed:
        comm = world.comm.group(ranks)
    else:
        board = TorchBoard(opts.store)
        connection = meet_over(board, opts.group_rank, opts.group_size, seconds)
        comm = Communicator(connection)
    comm.timeout = seconds
    return CollalgoGroup(comm, opts.store)


def register() -> None:
    """Let torch know the backend; torch calls this itself when it is imported."""
    if dist.is_available() and "COLLALGO" not in dist.Backend._plugins:
        dist.Backend.register_backend(
            "collalgo", create, extended_api=True, devices=["cpu"]
        )


register()
