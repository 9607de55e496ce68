"""The overloads of a process group of torch: one form for all of them.

Torch calls with lists of tensors and options. Users may also pass a single tensor, and
the fields of the options (op, root, timeout) instead of the options.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
)

from collalgo.base.arguments import shown

#: The keywords of torch for each argument that holds tensors.
KEYWORDS = {
    "tensor": ("tensors", "tensor"),
    "tensors": ("tensors",),
    "output": ("outputs", "output", "outputTensor", "output_tensors", "output_tensor"),
    "outputs": ("outputs", "output_tensors", "output_lists"),
    "input": ("inputs", "input", "inputTensor", "input_tensors", "input_tensor"),
    "inputs": ("inputs", "input", "input_tensors", "input_list"),
    "output_splits": ("output_split_sizes",),
    "input_splits": ("input_split_sizes",),
}

#: The keywords for the fields of options.
FIELDS = {"rootRank": "root", "reduceOp": "op", "timeout": "timeout"}


class Overloads:
    """The overloads of a call: callable, gives its tensors and its options.

    Parameters
    ----------
    call
        The name of the call.
    options
        The class of its options.
    arguments
        The names of the arguments before the options, each followed by its kind:
        ``tensor``, one tensor or a list of it; ``list``, tensors or a list of them;
        ``any``, as it is.
    fields
        The fields that may replace the options, in their order.
    """

    def __init__(self, call: str, options: Any, arguments: str, *fields: str):
        self._call, self._options = call, options
        words = arguments.split()
        self._names = words[::2]
        self._length = len(self._names) + 1
        self._convert = [*(KINDS[kind] for kind in words[1::2]), anything]
        self._fields = (*fields, "timeout")

    def __call__(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """The arguments, converted, and the options.

        Raises
        ------
        TypeError
            If the arguments are those of no overload.
        ValueError
            For more than one tensor, or list of tensors, where one is expected.
        """
        if named or len(args) != self._length or type(args[-1]) is not self._options:
            args = self._complete(args, dict(named))  # not as torch calls
        call = self._call
        return [
            convert(call, argument)
            for convert, argument in zip(self._convert, args, strict=True)
        ]

    def _complete(
        self, args: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The arguments of the overload with options, from those of another one."""
        names = self._names
        found = [*args[: len(names)], *map(self._taker(named), names[len(args) :])]
        return (*found, self._options_of(list(args[len(names) :]), named))

    def _taker(self, named: dict[str, Any]) -> Any:
        """A function that takes an argument out of the keywords by its name."""

        def take(name: str) -> Any:
            for keyword in KEYWORDS[name]:
                if keyword in named:
                    return named.pop(keyword)
            raise TypeError(f"{self._call}: pass {KEYWORDS[name][0]}, which is missing")

        return take

    def _options_of(self, rest: list[Any], named: dict[str, Any]) -> Any:
        """The options that were passed, or options made of their fields."""
        if "opts" in named:
            rest.append(named.pop("opts"))
        if len(rest) == 1 and isinstance(rest[0], self._options) and not named:
            return rest[0]
        opts = self._options()
        fields = dict(zip(self._fields, rest, strict=False))
        for field in self._fields:
            if FIELDS[field] in named and field not in fields:
                fields[field] = named.pop(FIELDS[field])
        if named or len(rest) > len(self._fields):
            raise self._unknown(rest, named)
        for field, value in fields.items():
            if value is not None:
                setattr(opts, field, value)
        return opts

    def _unknown(self, rest: list[Any], named: dict[str, Any]) -> TypeError:
        """The error for arguments that no overload has."""
        kinds = ", ".join([*(type(each).__name__ for each in rest), *named])
        fields = ", ".join(FIELDS[field] for field in self._fields)
        return TypeError(
            f"{self._call}: got ({kinds}) after the tensors; pass "
            f"{self._options.__name__}, or {fields}"
        )


def one_tensor(call: str, argument: Any) -> Tensor:
    """A tensor that was passed alone or in a list.

    Raises
    ------
    TypeError, ValueError
        If it is something else, or more than one.
    """
    if isinstance(argument, Tensor):
        return argument
    if is_list(argument) and len(argument) == 1 and isinstance(argument[0], Tensor):
        found: Tensor = argument[0]
        return found
    raise _not_one(call, argument, "tensor")


def list_of_tensors(call: str, argument: Any) -> list[Tensor]:
    """Tensors that were passed in a list, or in a list of one list."""
    if is_list(argument):
        nested = len(argument) == 1 and not isinstance(argument[0], Tensor)
        tensors: list[Tensor] = list(argument[0]) if nested else list(argument)
        for each in tensors:
            if not isinstance(each, Tensor):
                break
        else:
            return tensors
    raise _not_one(call, argument, "list of tensors")


def anything(_call: str, argument: Any) -> Any:
    """The argument itself."""
    return argument


def is_list(argument: Any) -> bool:
    """Whether an argument has items, and is neither a tensor nor a text."""
    return isinstance(argument, Sequence) and not isinstance(argument, str | bytes)


def _not_one(call: str, argument: Any, what: str) -> Exception:
    if not is_list(argument) or len(argument) < 2:
        return TypeError(f"{call}: got {shown(argument)}; pass one {what}")
    return ValueError(
        f"{call}: got a list of {len(argument)}, where a call takes one {what}; make "
        "a call for each, or a coalesced call"
    )


#: How the arguments of each kind are converted.
KINDS = {"tensor": one_tensor, "list": list_of_tensors, "any": anything}

ALLREDUCE = Overloads("allreduce", dist.AllreduceOptions, "tensor tensor", "reduceOp")
ALLREDUCE_COALESCED = Overloads(
    "allreduce_coalesced", AllreduceCoalescedOptions, "tensors list"
)
REDUCE = Overloads(
    "reduce", dist.ReduceOptions, "tensor tensor", "rootRank", "reduceOp"
)
BROADCAST = Overloads("broadcast", dist.BroadcastOptions, "tensor tensor", "rootRank")
ALLGATHER = Overloads("allgather", AllgatherOptions, "outputs list input tensor")
ALLGATHER_SINGLE = Overloads(
    "all_gather_single", AllgatherOptions, "output tensor input tensor"
)
ALLGATHER_SINGLES = Overloads(
    "all_gather_single_coalesced", AllgatherOptions, "outputs list inputs list"
)
ALLGATHER_COALESCED = Overloads(
    "allgather_coalesced", AllgatherOptions, "outputs any inputs list"
)
REDUCE_SCATTER = Overloads(
    "reduce_scatter",
    dist.ReduceScatterOptions,
    "output tensor inputs list",
    "reduceOp",
)
REDUCE_SCATTER_SINGLE = Overloads(
    "reduce_scatter_single", dist.ReduceScatterOptions, "output tensor input tensor"
)
REDUCE_SCATTER_SINGLES = Overloads(
    "reduce_scatter_single_coalesced",
    dist.ReduceScatterOptions,
    "outputs list inputs list",
)
GATHER = Overloads(
    "gather", dist.GatherOptions, "outputs list input tensor", "rootRank"
)
SCATTER = Overloads(
    "scatter", dist.ScatterOptions, "output tensor inputs list", "rootRank"
)
ALLTOALL = Overloads("alltoall", dist.AllToAllOptions, "outputs list inputs list")
ALLTOALL_SINGLE = Overloads(
    "all_to_all_single",
    dist.AllToAllOptions,
    "output tensor input tensor output_splits any input_splits any",
)
BARRIER = Overloads("barrier", dist.BarrierOptions, "")
