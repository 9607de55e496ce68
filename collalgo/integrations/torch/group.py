"""A process group of torch on a communicator."""

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor, device
from torch.distributed.distributed_c10d import AllgatherOptions

from collalgo.comm import current
from collalgo.comm.communicator import Communicator
from collalgo.integrations.torch.backward import defer
from collalgo.integrations.torch.buckets import in_heap, is_called_by_ddp
from collalgo.integrations.torch.call_site import CallSites, located
from collalgo.integrations.torch.ops import operands
from collalgo.integrations.torch.profiling import profiled
from collalgo.integrations.torch.sparse import reduce_sparse
from collalgo.integrations.torch.tensors import (
    Target,
    array_of,
    flat,
    gpu_of,
    in_rows,
    source_of,
    split_counts,
)
from collalgo.integrations.torch.work import GroupWork, seconds_of


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
        self.call_sites = CallSites()

    # The names that the C++ of torch calls.

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

    # ---- make a call

    @profiled
    @located
    def _make(
        self,
        call: str,
        opts: Any,
        tensors: list[Tensor],
        source: Tensor | None,
        *args: Any,
        out: Tensor | None = None,
        into: Target | None = None,
    ) -> GroupWork:
        """Make a call; in the background for ``async_op`` and coalesced calls."""
        named: dict[str, Any] = {"timeout": seconds_of(opts.timeout)}
        works, finish = [], []
        if into is not None:
            out, finish = into.tensor, [into.finish]
        if out is not None:
            named["out"] = array_of(out)
        if source is not None:
            args = (array_of(source), *args)
        in_background = opts.asyncOp or self._coalesced is not None
        if in_background:
            if source is not None and source.is_cpu:
                defer(current.runner_of(self.comm).progress)
            works.append(getattr(self.comm, f"{call}_async")(*args, **named))
        else:
            getattr(self.comm, call)(*args, **named)
        made = self._noted(GroupWork(works, tensors, finish, gpu_of(source)))
        if not in_background:
            made.wait()
        return made

    def _noted(self, work: GroupWork) -> GroupWork:
        if self._coalesced is not None:
            self._coalesced.append(work)
        return work

    def _start_coalescing(self, _device: device) -> None:
        self._coalesced = []

    def _end_coalescing(self, _device: device) -> GroupWork:
        works, self._coalesced = self._coalesced or [], None
        return GroupWork.of(works)

    # ---- calls that reduce

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> GroupWork:
        opts = opts or dist.AllreduceOptions()
        of_ddp = is_called_by_ddp()
        return GroupWork.of([self._allreduce(t, opts, of_ddp) for t in tensors])

    allreduce_coalesced = allreduce

    def _allreduce(self, tensor: Tensor, opts: Any, of_ddp: bool) -> GroupWork:
        if tensor.is_sparse:
            reduce_sparse(tensor, opts.reduceOp, self.comm, seconds_of(opts.timeout))
            return self._noted(GroupWork([], [tensor]))
        source, op = operands(tensor, opts.reduceOp)
        out = None if source is tensor else tensor
        if of_ddp and source is tensor:
            source = in_heap(tensor, self.comm.heap)
        return self._make("allreduce", opts, [tensor], source, op, out=out)

    def reduce(self, tensors: list[Tensor], opts: Any) -> GroupWork:
        source, op = operands(tensors[0], opts.reduceOp)
        out = None if source is tensors[0] else tensors[0]
        return self._make("reduce", opts, tensors, source, op, opts.rootRank, out=out)

    def reduce_scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.ReduceScatterOptions()
        source, op = operands(source_of(inputs[0]), opts.reduceOp)
        counts = [tensor.numel() for tensor in inputs[0]]
        return self._scatter_sum(outputs[0], source, op, counts, opts)

    def reduce_scatter_single(
        self, output: Tensor, input: Tensor, opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.ReduceScatterOptions()
        source, op = operands(flat(input), opts.reduceOp)
        counts = [len(source) // self.comm.size] * self.comm.size
        return self._scatter_sum(output, source, op, counts, opts)

    def _scatter_sum(
        self, output: Tensor, source: Tensor, op: str, counts: list[int], opts: Any
    ) -> GroupWork:
        even = None if len(set(counts)) == 1 else counts
        into = Target([output])
        return self._make("reduce_scatter", opts, [output], source, op, even, into=into)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        pairs = zip(outputs, inputs, strict=True)
        return GroupWork.of([self.reduce_scatter_single(o, i, opts) for o, i in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- calls that share

    def broadcast(self, tensors: list[Tensor], opts: Any) -> GroupWork:
        return self._make("broadcast", opts, tensors, tensors[0], opts.rootRank)

    def allgather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        opts = opts or AllgatherOptions()
        source = flat(inputs[0])
        counts = [tensor.numel() for tensor in outputs[0]]
        into = Target(outputs[0])
        return self._make("allgatherv", opts, outputs[0], source, counts, into=into)

    def all_gather_single(
        self, output: Tensor, input: Tensor, opts: Any = None
    ) -> GroupWork:
        opts = opts or AllgatherOptions()
        source, into = flat(input), Target([output], self.comm.size)
        return self._make("allgather", opts, [output], source, into=into)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        pairs = zip(outputs, inputs, strict=True)
        return GroupWork.of([self.all_gather_single(o, i, opts) for o, i in pairs])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        lists = [[row[i] for row in outputs] for i in range(len(inputs))]
        pairs = zip(lists, inputs, strict=True)
        return GroupWork.of([self.allgather([o], [i], opts) for o, i in pairs])

    def gather(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any
    ) -> GroupWork:
        source, root = flat(inputs[0]), opts.rootRank
        if self.comm.rank != root:
            return self._make("gather", opts, [], source, root)
        into = Target(outputs[0], self.comm.size)
        return self._make("gather", opts, outputs[0], source, root, into=into)

    def scatter(
        self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any
    ) -> GroupWork:
        into, root = Target(outputs), opts.rootRank
        source = into.tensor
        if self.comm.rank == root:
            source = in_rows(source_of(inputs[0]), self.comm.size)
        return self._make("scatter", opts, outputs, source, root, into=into)

    def all_to_all_single(
        self,
        output: Tensor,
        input: Tensor,
        output_splits: list[int],
        input_splits: list[int],
        opts: Any = None,
    ) -> GroupWork:
        opts = opts or dist.AllToAllOptions()
        source = flat(input)
        if not output_splits and not input_splits:
            parts = in_rows(source, self.comm.size)
            into = Target([output], self.comm.size)
            return self._make("alltoall", opts, [output], parts, into=into)
        counts = split_counts(input, input_splits, self.comm.size)
        return self._swap([output], source, counts, opts)

    alltoall_base = all_to_all_single

    def alltoall(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> GroupWork:
        opts = opts or dist.AllToAllOptions()
        counts = [tensor.numel() for tensor in inputs]
        return self._swap(outputs, source_of(inputs), counts, opts)

    def _swap(
        self, outputs: list[Tensor], source: Tensor, counts: list[int], opts: Any
    ) -> GroupWork:
        into = Target(outputs)
        return self._make("alltoallv", opts, outputs, source, counts, into=into)

    def barrier(self, opts: Any = None) -> GroupWork:
        return self._make("barrier", opts or dist.BarrierOptions(), [], None)

    def monitored_barrier(
        self,
        timeout: timedelta = timedelta(0),
        wait_all_ranks: bool = True,  # noqa: ARG002  always the case
    ) -> None:
        """Wait for all ranks; the error names all missing ranks."""
        self.comm.barrier(timeout=seconds_of(timeout))

    # ---- messages between two ranks

    @profiled
    def _message(
        self, call: str, tensors: list[Tensor], peer: int | None, tag: int
    ) -> GroupWork:
        into = None if call == "send" else Target(tensors)
        tensor = flat(tensors[0]) if into is None else into.tensor
        finish = [] if into is None else [into.finish]
        work = getattr(self.comm, f"i{call}")(array_of(tensor), peer, tag)
        return self._noted(GroupWork([work], tensors, finish, gpu_of(tensor)))

    def send(self, tensors: list[Tensor], to: int, tag: int) -> GroupWork:
        return self._message("send", tensors, to, tag)

    def recv(self, tensors: list[Tensor], source: int, tag: int) -> GroupWork:
        return self._message("recv", tensors, source, tag)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> GroupWork:
        return self._message("recv", tensors, None, tag)

    # ---- the end

    def abort(self) -> None:
        self.comm.abort("its process group was aborted")

    def shutdown(self) -> None:
        if current.of_process.foreign is self.comm:
            current.of_process.foreign = None
        self.comm.close()

    def set_timeout(self, timeout: timedelta) -> None:
        self.comm.timeout = timeout.total_seconds()
