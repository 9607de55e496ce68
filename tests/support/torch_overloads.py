"""The overloads of torch's ProcessGroup, and arguments for them."""

import inspect
import re
from datetime import timedelta
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from collalgo.integrations.torch import CollalgoGroup

SIZES = (1, 2, 3)


SHAPES = ((), (4,), (6, 2))


SECONDS = timedelta(seconds=30)


#: With tensors of no dimension, in torch 2.13.
CRASH_ON_GLOO = {
    "_reduce_scatter_base", "reduce_scatter_single",
    "reduce_scatter_single_coalesced", "reduce_scatter_tensor_coalesced",
}  # fmt: skip


POINT_TO_POINT = {"send", "recv", "recv_anysource"}


class Overload(NamedTuple):
    """An overload: the names of its parameters, and their types as torch says them."""

    call: str
    parameters: tuple[tuple[str, str], ...]


def overloads():
    """All overloads that take tensors, and those of barrier."""
    for call in sorted(dir(dist.ProcessGroup)):
        text = inspect.getdoc(getattr(dist.ProcessGroup, call)) or ""
        for line in re.findall(
            rf"^(?:\d+\. )?{call}\(self: (.*)\) -> ", text, re.MULTILINE
        ):
            found = re.findall(r"(\w+): ([^=,]*[^=, ])", re.sub(r"<[^>]*>", "", line))
            if "torch.Tensor" in line or call == "barrier":
                yield Overload(call, tuple(found))


def value(rank, shape, salt=0):
    count = torch.Size(shape).numel()
    return ((torch.arange(count) * (rank + 2) + rank + salt) % 7).float().view(shape)


def contents(call, rank, size, shape):
    """The outputs and inputs of a call: a tensor, or a list of them."""
    # Long: a table of the calls.
    is_root, one, other = rank == size - 1, value(rank, shape), value(rank, (3,))
    each, theirs = ([value(rank, shape, i) for i in range(size)] for _ in range(2))
    wide, as_wide = (value(rank, (size * sum(shape[:1] or (1,)), *shape[1:]), i)
                     for i in range(2))  # fmt: skip
    base = call.removeprefix("_").removesuffix("_coalesced").replace("_base", "_single")
    if call in {"allreduce_coalesced", "allgather_coalesced"}:
        rows = [[value(rank, shape, 1), value(rank, (3,), 1)] for _ in range(size)]
        return (None if "reduce" in call else rows), [one, other]
    found = {
        "allreduce": (None, one),
        "reduce": (None, one),
        "broadcast": (None, one),
        "barrier": (None, None),
        "allgather": (each, one),
        "gather": (each if is_root else [], one),
        "scatter": (one, each if is_root else []),
        "reduce_scatter": (one, each),
        "alltoall": (each, theirs),
        "allgather_single": (wide, one),
        "all_gather_single": (wide, one),
        "allgather_into_tensor": (wide, one),
        "reduce_scatter_single": (one, wide),
        "reduce_scatter_tensor": (one, wide),
        "all_to_all_single": (wide, as_wide),
        "alltoall_single": (wide, as_wide),
    }
    assert base in found, f"torch has a new call: {call}"
    return found[base]


def as_declared(found, kind):
    """A tensor or a list in the form that a parameter has."""
    depth = kind.count("Sequence")
    if isinstance(found, torch.Tensor):
        return found if depth == 0 else [found]
    nested = bool(found) and isinstance(found[0], list)
    return [found] if depth == 2 and found and not nested else found


def options(kind, size):
    made = getattr(dist, kind, None) or getattr(c10d, kind)
    opts = made()
    if hasattr(opts, "rootRank"):
        opts.rootRank = size - 1
    if hasattr(opts, "reduceOp"):
        opts.reduceOp = dist.ReduceOp.MAX
    return opts


def arguments(overload, rank, size, shape):
    """The arguments by name, and all the tensors in them."""
    outputs, inputs = contents(overload.call, rank, size, shape)
    found = {}
    for name, kind in overload.parameters:
        if "Tensor" in kind:
            is_output = name.startswith("output")
            found[name] = as_declared(outputs if is_output else inputs, kind)
        elif name == "opts":
            found[name] = options(kind.rsplit(".", 1)[-1], size)
        elif name.endswith("split_sizes"):
            found[name] = []
        else:
            known = {"op": dist.ReduceOp.MAX, "root": size - 1, "timeout": SECONDS}
            found[name] = known[name]
    return found, [*flattened(outputs), *flattened(inputs)]


def flattened(found):
    if found is None:
        return []
    if isinstance(found, torch.Tensor):
        return [found]
    return [tensor for each in found for tensor in flattened(each)]


def result(group, overload, rank, size, shape, named):
    """All tensors after a call; None if the group refuses it."""
    found, tensors = arguments(overload, rank, size, shape)
    call = getattr(group, overload.call)
    try:
        (call(**found) if named else call(*found.values())).wait()
    except RuntimeError:
        assert not isinstance(group, CollalgoGroup), (overload, named)
        return None
    return tensors


def on_gloo(store, rank, size):
    group = dist.ProcessGroup(store, rank, size)
    gloo = dist.ProcessGroupGloo(store, rank, size, SECONDS)
    kind = dist.ProcessGroup.BackendType.GLOO
    group._set_default_backend(kind)
    group._register_backend(torch.device("cpu"), kind, gloo)
    return group


def same(overload, found, expected):
    assert len(found) == len(expected), overload
    for mine, theirs in zip(found, expected, strict=True):
        assert torch.equal(mine, theirs), (overload, mine, theirs)
