"""All calls of the backend of torch, on tensors wherever they are."""

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import AllgatherOptions

#: The ranks that must make them.
SIZE = 3


def waited_for(work):
    assert work.wait()


def by_future(work):
    work.get_future().wait()


def options(kind, **fields):
    found = kind()
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def every_call(group, values, finish):
    """What all calls give: in the background with ``finish``, else at once."""
    # Long: the calls of torch one after the other, which add to one list.
    rank, given = group.comm.rank, []

    def call(name, kind, results, *args, **fields):
        opts = options(kind, asyncOp=finish is not None, **fields)
        work = getattr(group, name)(*args, opts)
        if finish is not None:
            finish(work)
        given.extend(results)

    for dtype in (torch.float32, torch.bfloat16, torch.int64):

        def ours(count=6, dtype=dtype):
            return values((torch.arange(count) + 2 * rank).to(dtype))

        x = [ours()]
        call("allreduce", dist.AllreduceOptions, x, x)
        x = [ours()]
        call("broadcast", dist.BroadcastOptions, x, x, rootRank=1)
        x = [ours()]
        call("reduce", dist.ReduceOptions, x if rank == 1 else [], x, rootRank=1)
        apart = [ours(2), ours(2), ours(2)]
        call("allgather", AllgatherOptions, apart, [apart], [ours(2)])
        out = ours()
        call("all_gather_single", AllgatherOptions, [out], out, ours(2))
        apart = [ours(2), ours(2), ours(2)]
        lists = [apart] if rank == 0 else []
        call("gather", dist.GatherOptions, apart, lists, [ours(2)], rootRank=0)
        out, parts = ours(2), [[ours(2) for _ in range(SIZE)]]
        call("scatter", dist.ScatterOptions, [out], [out],
             parts if rank == 0 else [], rootRank=0)  # fmt: skip
        out, uneven = ours(rank + 1), [ours(i + 1) for i in range(SIZE)]
        call("reduce_scatter", dist.ReduceScatterOptions, [out], [out], [uneven])
        out = ours(2)
        call("reduce_scatter_single", dist.ReduceScatterOptions, [out], out, ours())
        out = ours(3 * (rank + 1))
        call("all_to_all_single", dist.AllToAllOptions, [out], out, ours(6),
             [rank + 1] * SIZE, [1, 2, 3])  # fmt: skip
        outs, ins = [[ours(2) for _ in range(SIZE)] for _ in range(2)]
        call("alltoall", dist.AllToAllOptions, outs, outs, ins)

    scaled = dist._make_nccl_premul_sum(0.5)
    for dtype in (torch.float32, torch.float8_e4m3fn):
        x = [values(torch.arange(6.0).to(dtype))]
        call("allreduce", dist.AllreduceOptions, x, x, reduceOp=scaled)
    call("barrier", dist.BarrierOptions, [])
    group._start_coalescing(x[0].device)
    parts = [values(torch.full((3,), rank + 1.0)) for _ in range(2)]
    for part in parts:
        group.allreduce([part], dist.AllreduceOptions())
    (finish or waited_for)(group._end_coalescing(x[0].device))
    got = values(torch.zeros(4))
    works = [
        group.send([values(torch.full((4,), float(rank)))], (rank + 1) % SIZE, 5),
        group.recv([got], (rank - 1) % SIZE, 5),
    ]
    for work in works:
        (finish or waited_for)(work)
    return [*given, *parts, got]
