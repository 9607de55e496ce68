"""Calls that are made in a backward pass, as those of DistributedDataParallel.

Where cores are spare, some gradients are summed while others are computed. Where none
is, the two only interrupt each other, and ranks wait for those that were interrupted:
there the calls are put off to the end of the pass.
"""

from threading import local

import torch
from torch.autograd import Variable

from collalgo._kernels.comm.progress import Progress

#: The number of no backward pass.
NO_PASS = -1


class BackwardPass(local):
    """The last backward pass of a thread, and the queue of what is put off to its end.

    It has the calls of one communicator. Others go on: where groups overlap, each rank
    could be in a call that waits for the next one.
    """

    number: int = NO_PASS
    queue: int | None = None  # its id, as it is not kept


last = BackwardPass()


def put_off(queue: Progress) -> None:
    """Leave what comes into a queue to the end of the backward pass, if one is on."""
    number = torch._C._current_graph_task_id()
    if number == NO_PASS:
        return
    if number != last.number:
        last.number, last.queue = number, id(queue)
        if queue.hold():
            Variable._execution_engine.queue_callback(queue.catch_up)
    elif last.queue == id(queue):
        queue.hold()
