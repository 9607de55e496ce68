"""A process group of torch on a communicator."""

from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch import Tensor

from collalgo._kernels.integrations.torch_calls import direct
from collalgo.comm import current
from collalgo.integrations.torch.buckets import in_heap, is_called_by_ddp
from collalgo.integrations.torch.calls import GroupCalls
from collalgo.integrations.torch.checks import (
    Passed,
    check_alike,
    check_at_root,
    check_one_each,
    check_pairs,
    check_whole,
)
from collalgo.integrations.torch.ops import reduction_of
from collalgo.integrations.torch.options import checked
from collalgo.integrations.torch.overloads import (
    ALLGATHER,
    ALLGATHER_COALESCED,
    ALLGATHER_SINGLE,
    ALLGATHER_SINGLES,
    ALLREDUCE,
    ALLREDUCE_COALESCED,
    ALLTOALL,
    ALLTOALL_SINGLE,
    BARRIER,
    BROADCAST,
    GATHER,
    REDUCE,
    REDUCE_SCATTER,
    REDUCE_SCATTER_SINGLE,
    REDUCE_SCATTER_SINGLES,
    SCATTER,
)
from collalgo.integrations.torch.sparse import reduce_sparse
from collalgo.integrations.torch.tensors import Operand, in_place, joined, split_counts
from collalgo.integrations.torch.work import GroupWork, seconds_of


class CollalgoGroup(GroupCalls):
    """A process group of torch on a communicator.

    Parameters
    ----------
    comm
        The communicator.
    store
        The store of torch for this group.
    """

    # ---- calls that reduce

    @direct
    def allreduce(self, *args: Any, **named: Any) -> GroupWork:
        of_ddp = is_called_by_ddp()
        tensor, opts = ALLREDUCE(args, named)
        return self._allreduce(tensor, opts, of_ddp)

    def allreduce_coalesced(self, *args: Any, **named: Any) -> GroupWork:
        tensors, opts = ALLREDUCE_COALESCED(args, named)
        return GroupWork.of([self._allreduce(each, opts, False) for each in tensors])

    def _allreduce(self, tensor: Tensor, opts: Any, of_ddp: bool) -> GroupWork:
        if tensor.is_sparse:
            reduce_sparse(tensor, opts.reduceOp, self.comm, seconds_of(opts.timeout))
            return self._noted(GroupWork([], [tensor]))
        mine = in_place(tensor)
        source, op = reduction_of(mine, opts.reduceOp)
        out = None if source is mine and mine.unpack is None else mine
        if of_ddp and out is None:
            source = Operand(in_heap(tensor, self.comm.heap))
        return self._make("allreduce", opts, [tensor], source, op, out=out)

    def reduce(self, *args: Any, **named: Any) -> GroupWork:
        tensor, opts = REDUCE(args, named)
        mine = in_place(tensor)
        source, op = reduction_of(mine, opts.reduceOp)
        out = None if source is mine and mine.unpack is None else mine
        return self._make("reduce", opts, [tensor], source, op, opts.rootRank, out=out)

    def reduce_scatter(self, *args: Any, **named: Any) -> GroupWork:
        output, inputs, opts = REDUCE_SCATTER(args, named)
        call, own = "reduce_scatter", Passed("output", output)
        check_one_each(inputs, self.comm.size, call, "input_list")
        check_alike(inputs, "input_list", own, call, self.comm.rank)
        counts = [tensor.numel() for tensor in inputs]
        return self._scatter_sum(output, joined(inputs), counts, opts)

    @direct
    def reduce_scatter_single(self, *args: Any, **named: Any) -> GroupWork:
        output, tensor, opts = REDUCE_SCATTER_SINGLE(args, named)
        whole, part = Passed("input", tensor), Passed("output", output)
        check_whole(whole, part, self.comm.size, "reduce_scatter_tensor")
        counts = [output.numel()] * self.comm.size
        return self._scatter_sum(output, joined([tensor]), counts, opts)

    def _scatter_sum(
        self, output: Tensor, source: Operand, counts: list[int], opts: Any
    ) -> GroupWork:
        even = None if len(set(counts)) == 1 else counts
        source, op = reduction_of(source, opts.reduceOp)
        out = joined([output])
        return self._make("reduce_scatter", opts, [output], source, op, even, out=out)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, *args: Any, **named: Any) -> GroupWork:
        outputs, inputs, opts = REDUCE_SCATTER_SINGLES(args, named)
        check_pairs(outputs, inputs, "reduce_scatter_tensor")
        pairs = zip(outputs, inputs, strict=True)
        return GroupWork.of([self.reduce_scatter_single(o, i, opts) for o, i in pairs])

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    # ---- calls that share

    @direct
    def broadcast(self, *args: Any, **named: Any) -> GroupWork:
        tensor, opts = BROADCAST(args, named)
        return self._make("broadcast", opts, [tensor], in_place(tensor), opts.rootRank)

    def allgather(self, *args: Any, **named: Any) -> GroupWork:
        outputs, tensor, opts = ALLGATHER(args, named)
        check_one_each(outputs, self.comm.size, "all_gather", "tensor_list")
        own = Passed("tensor", tensor)
        check_alike(outputs, "tensor_list", own, "all_gather", self.comm.rank)
        counts, source = [each.numel() for each in outputs], joined([tensor])
        out = joined(outputs)
        return self._make("allgatherv", opts, outputs, source, counts, out=out)

    @direct
    def all_gather_single(self, *args: Any, **named: Any) -> GroupWork:
        output, tensor, opts = ALLGATHER_SINGLE(args, named)
        whole, part = Passed("output_tensor", output), Passed("input_tensor", tensor)
        check_whole(whole, part, self.comm.size, "all_gather_into_tensor")
        source, out = joined([tensor]), joined([output], self.comm.size)
        return self._make("allgather", opts, [output], source, out=out)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, *args: Any, **named: Any) -> GroupWork:
        outputs, inputs, opts = ALLGATHER_SINGLES(args, named)
        check_pairs(outputs, inputs, "all_gather_into_tensor")
        pairs = zip(outputs, inputs, strict=True)
        return GroupWork.of([self.all_gather_single(o, i, opts) for o, i in pairs])

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def allgather_coalesced(self, *args: Any, **named: Any) -> GroupWork:
        rows, inputs, opts = ALLGATHER_COALESCED(args, named)
        for row in rows:
            check_pairs(row, inputs, "all_gather_coalesced")
        columns = zip(*rows, strict=True)
        pairs = zip(columns, inputs, strict=True)
        return GroupWork.of([self.allgather(o, i, opts) for o, i in pairs])

    def gather(self, *args: Any, **named: Any) -> GroupWork:
        outputs, tensor, opts = GATHER(args, named)
        source, root = joined([tensor]), opts.rootRank
        own = Passed("tensor", tensor)
        if check_at_root(outputs, "gather_list", own, self.comm, root):
            out = joined(outputs, self.comm.size)
            return self._make("gather", opts, outputs, source, root, out=out)
        return self._make("gather", opts, [], source, root)

    def scatter(self, *args: Any, **named: Any) -> GroupWork:
        output, inputs, opts = SCATTER(args, named)
        out, root = joined([output]), opts.rootRank
        source = Operand(out.tensor)
        own = Passed("tensor", output)
        if check_at_root(inputs, "scatter_list", own, self.comm, root):
            source = joined(inputs, self.comm.size)
        return self._make("scatter", opts, [output], source, root, out=out)

    @direct
    def all_to_all_single(self, *args: Any, **named: Any) -> GroupWork:
        output, tensor, into, of, opts = ALLTOALL_SINGLE(args, named)
        size = self.comm.size
        sent, kept = split_counts(tensor, of, size), split_counts(output, into, size)
        if into or of:
            return self._swap([output], joined([tensor]), sent, kept, opts)
        same = Passed("output", output), Passed("input", tensor)
        check_whole(*same, 1, "all_to_all_single")
        parts, out = joined([tensor], size), joined([output], size)
        return self._make("alltoall", opts, [output], parts, out=out)

    alltoall_base = all_to_all_single

    def alltoall(self, *args: Any, **named: Any) -> GroupWork:
        outputs, inputs, opts = ALLTOALL(args, named)
        sent: list[int] = []
        kept: list[int] = []
        for what, tensors, counts in ("input", inputs, sent), ("output", outputs, kept):
            name = f"{what}_tensor_list"
            check_one_each(tensors, self.comm.size, "all_to_all", name)
            counts.extend(tensor.numel() for tensor in tensors)
        return self._swap(outputs, joined(inputs), sent, kept, opts)

    def _swap(
        self,
        outputs: list[Tensor],
        source: Operand,
        sent: list[int],
        kept: list[int],
        opts: Any,
    ) -> GroupWork:
        out = joined(outputs)
        return self._make("alltoallv", opts, outputs, source, sent, kept, out=out)

    def barrier(self, *args: Any, **named: Any) -> GroupWork:
        (opts,) = BARRIER(args, named)
        return self._make("barrier", opts, [], None)

    def monitored_barrier(
        self,
        timeout: timedelta | None = None,
        wait_all_ranks: bool = True,  # noqa: ARG002  always the case
    ) -> None:
        """Wait for all ranks; the error names all missing ranks."""
        self.comm.barrier(timeout=seconds_of(timeout or timedelta(0)))

    def _get_sequence_number_for_group(self) -> int:
        """The number of calls of this rank, alike on all ranks between two calls."""
        return int(current.runner_of(self.comm).recorder.count)

    def _set_sequence_number_for_group(self) -> None:
        """Nothing: the ranks of a new communicator have made no calls."""

    # ---- other groups

    def split_group(
        self,
        ranks: list[int],
        timeout: timedelta | None = None,
        opts: Any = None,
        group_name: str | None = None,
        group_desc: str | None = None,
        device_types: Any = None,  # noqa: ARG002  all that the backend serves
    ) -> "CollalgoGroup | None":
        """A group of some ranks, in their order here; None on the others."""
        options = checked(opts)
        if self.comm.rank not in ranks:
            return None
        comm = self.comm.group(sorted(ranks))
        comm.timeout = timeout.total_seconds() if timeout else self.comm.timeout
        options.apply(comm)
        group = CollalgoGroup(comm, dist.PrefixStore(f"{ranks}/", self._store))
        group.setGroupName(group_name or f"{self._name}:split:{ranks}")
        group.setGroupDesc(group_desc or f"{self._description}:split")
        return group

    def merge_remote_group(self, *_: Any, **_named: Any) -> None:
        """Refuse: the ranks of a world are fixed."""
        raise NotImplementedError(
            "merge_remote_group: a group of collalgo takes no further ranks; start all "
            "ranks in one job, or see collalgo.elastic"
        )
