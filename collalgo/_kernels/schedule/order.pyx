# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: freethreading_compatible=True
"""The order of steps and its times: the inner loops of :mod:`collalgo.schedule.replay`.

Steps are numbered through all ranks. An event is twice the number of a step when its rank
enters it, plus one when the step ends.
"""

from libc.stdint cimport int32_t, int64_t

import numpy as np

ctypedef const int64_t[::1] ints


def in_order(ints first_step, ints first_message, ints messages, ints out, ints into):
    """Order the steps so that each ends only after its peers enter the matching steps.

    Parameters
    ----------
    first_step
        The first step of each rank, and the end.
    first_message, messages
        The messages of each step, those sent and those received.
    out, into
        The step that sends a message and the one that receives it.

    Returns
    -------
    events : ndarray
        The events, up to a deadlock if there is one.
    at : ndarray
        The step that each rank has reached.
    """
    # Long: one loop over a queue, whose parts share all arrays; apart they are 1.6 times
    # as slow.
    cdef int64_t size = first_step.shape[0] - 1, steps = first_step[size]
    cdef int64_t n = 0, queued = 0, taken = 0, rank, step, i, message
    cdef int64_t[::1] events = np.empty(2 * steps, np.int64)
    cdef int64_t[::1] at = np.array(first_step[:size])
    cdef int64_t[::1] queue = np.empty(2 * steps + size, np.int64)
    cdef int64_t[::1] pending = np.diff(first_message)
    cdef int32_t[::1] ends = np.zeros(out.shape[0], np.int32)
    cdef int64_t[::1] rank_of = np.repeat(np.arange(size), np.diff(first_step))
    for rank in range(size):
        if first_step[rank] < first_step[rank + 1]:
            queue[queued] = first_step[rank]
            queued += 1
    while taken < queued:
        step = queue[taken]
        taken += 1
        if step >= 0:
            events[n] = 2 * step
            n += 1
            if pending[step] == 0:  # nothing to wait for
                queue[queued] = -1 - step
                queued += 1
            for i in range(first_message[step], first_message[step + 1]):
                message = messages[i]
                ends[message] += 1
                if ends[message] == 2:
                    pending[out[message]] -= 1
                    pending[into[message]] -= 1
                    if pending[out[message]] == 0:
                        queue[queued] = -1 - out[message]
                        queued += 1
                    if into[message] != out[message] and pending[into[message]] == 0:
                        queue[queued] = -1 - into[message]
                        queued += 1
            continue
        step = -1 - step
        rank = rank_of[step]
        events[n] = 2 * step + 1
        n += 1
        at[rank] += 1
        if at[rank] < first_step[rank + 1]:
            queue[queued] = at[rank]
            queued += 1
    return np.asarray(events)[:n], np.asarray(at)


def critical_path(
    ints events, ints rank_of, ints first_incoming, ints incoming, ints out,
    const double[:, ::1] sending, const double[:, ::1] receiving, double latency,
    int64_t size
):
    """The time at which each rank ends, for each column of the weights.

    A step takes ``sending`` before its messages leave, ``latency`` for a message, and
    ``receiving`` once all its messages have arrived.
    """
    cdef int64_t width = sending.shape[1], e, step, rank, i, k, sender
    cdef double[:, ::1] sent = np.empty((sending.shape[0], width))
    cdef double[:, ::1] ended = np.zeros((size, width))
    for e in range(events.shape[0]):
        step = events[e] // 2
        rank = rank_of[step]
        if events[e] % 2 == 0:
            for k in range(width):
                sent[step, k] = ended[rank, k] + sending[step, k]
            continue
        for k in range(width):
            ended[rank, k] = sent[step, k]
        for i in range(first_incoming[step], first_incoming[step + 1]):
            sender = out[incoming[i]]
            for k in range(width):
                ended[rank, k] = max(ended[rank, k], sent[sender, k] + latency)
        for k in range(width):
            ended[rank, k] += receiving[step, k]
    return np.asarray(ended)
