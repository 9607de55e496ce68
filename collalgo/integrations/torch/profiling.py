"""Record calls as events of the profiler of torch."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch.autograd.profiler import record_function

from collalgo.integrations.torch.work import GroupWork

Group = TypeVar("Group")
Arguments = ParamSpec("Arguments")

#: The names of calls in the other backends of torch, where they differ.
NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherv": "all_gather",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
}


def profiled(
    make: Callable[Concatenate[Group, str, Arguments], GroupWork],
) -> Callable[Concatenate[Group, str, Arguments], GroupWork]:
    """Record each call as a profiler event that lasts until the call completes."""

    @wraps(make)
    def made(
        group: Group, call: str, /, *args: Arguments.args, **named: Arguments.kwargs
    ) -> GroupWork:
        if not torch.autograd._profiler_enabled():
            return make(group, call, *args, **named)
        with ExitStack() as event:
            event.enter_context(record_function(f"collalgo:{NAMES.get(call, call)}"))
            work = make(group, call, *args, **named)
            if work.works:
                # End the event before a waiter continues: the profiler may stop then,
                # and a later end would write to its freed memory.
                end = event.pop_all().close
                work.finish.append(end)
                work.get_future().add_done_callback(lambda _: end())  # or has failed
            return work

    return made
