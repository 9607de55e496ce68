"""The vocabulary of an algorithm; execution order, proof and drawing.

Algorithm files import this package and their siblings, nothing else.
"""

from collalgo.schedule.steps import (
    LANES,
    Chunk,
    Chunks,
    Group,
    Kind,
    ScheduleError,
    ScheduleFunction,
    Step,
    Steps,
    Transfer,
    as_step,
    between_two,
    divide,
    doublings,
    merge,
    pad,
    pipeline,
    recv,
    recv_reduce,
    reverse,
    send,
    spare,
    together,
)
from collalgo.schedule.tracing import begin, trace

__all__ = [
    "LANES",
    "Chunk",
    "Chunks",
    "Group",
    "Kind",
    "ScheduleError",
    "ScheduleFunction",
    "Step",
    "Steps",
    "Transfer",
    "as_step",
    "begin",
    "between_two",
    "divide",
    "doublings",
    "merge",
    "pad",
    "pipeline",
    "recv",
    "recv_reduce",
    "reverse",
    "send",
    "spare",
    "together",
    "trace",
]
