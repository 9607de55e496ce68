"""What the profiler of torch sees of calls."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import torch
from torch.autograd.profiler import record_function

from collalgo.integrations.torch.work import GroupWork

Group = TypeVar("Group")
Arguments = ParamSpec("Arguments")

#: Calls that the other backends of torch name in another way.
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
    """Let calls by their names be events, if the profiler is on, until they end."""

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
                # Before anyone goes on who waits: the profiler may end then, and what
                # ends later would write where it has been.
                end = event.pop_all().close
                work.finish.append(end)
                work.get_future().add_done_callback(lambda _: end())  # or has failed
            return work

    return made
