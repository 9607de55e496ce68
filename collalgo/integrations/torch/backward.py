"""Defer calls made during a backward pass, such as those of DistributedDataParallel.

With spare cores, communication overlaps with the computation of further gradients.
Without one, the two only interrupt each other, and every rank waits for the interrupted
ones; the calls are then deferred to the end of the pass.
"""

from threading import local

import torch
from torch.autograd import Variable

from collalgo._kernels.comm.progress import Progress

#: The number outside of a backward pass.
NO_PASS = -1


class BackwardPass(local):
    """The last backward pass of a thread, and its queue of deferred calls.

    Only the calls of one communicator are deferred. With overlapping groups, deferring
    the calls of several could deadlock.
    """

    number: int = NO_PASS
    queue: int | None = None  # its id, so that it is not kept alive


last = BackwardPass()


def defer(queue: Progress) -> None:
    """Defer the calls of a queue to the end of the current backward pass, if any."""
    number = torch._C._current_graph_task_id()
    if number == NO_PASS:
        return
    if number != last.number:
        last.number, last.queue = number, id(queue)
        if queue.hold():
            Variable._execution_engine.queue_callback(queue.catch_up)
    elif last.queue == id(queue):
        queue.hold()
