"""What jobs leave in the memory that processes share."""

import os
import time

FOLDER = "/dev/shm"

#: The names of Python's multiprocessing, which other programs of the machine use.
OF_OTHERS = ("psm_", "sem.mp-")


def names_in_memory(mpich=False):
    """The names of the shared memory of the machine: that of MPICH, or all other.

    Jobs of MPICH leave some where other tests end them by force.
    """
    names = [name for name in os.listdir(FOLDER) if not name.startswith(OF_OTHERS)]
    return {name for name in names if name.startswith("mpich") == mpich}


def left_in_memory(before, mpich=False, seconds=60.0):
    """The names that are new since ``before`` and stay.

    Other tests run beside this one; the memory of their jobs comes and goes.
    """
    left, end = names_in_memory(mpich) - before, time.monotonic() + seconds
    while left and time.monotonic() < end:
        time.sleep(0.05)
        left &= names_in_memory(mpich)
    return left
