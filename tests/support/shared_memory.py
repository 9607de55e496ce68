"""What jobs leave in the memory that processes share."""

import os
import time

FOLDER = "/dev/shm"


def names_in_memory():
    """The names of all shared memory of the machine."""
    return set(os.listdir(FOLDER))


def left_in_memory(before, seconds=60.0):
    """The names that are new since ``before`` and stay.

    Other tests run beside this one; the memory of their jobs comes and goes.
    """
    left, end = names_in_memory() - before, time.monotonic() + seconds
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= names_in_memory()
    return left
