"""What the stand-in for a device leaves behind: nothing."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from tests.support.fake_cuda import StandIn
from tests.support.fake_device_memory import owned


def comes(condition):
    end = time.monotonic() + 20
    while not condition() and time.monotonic() < end:
        time.sleep(0.005)
    return condition()


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_stand_in_that_is_dropped_ends_its_threads_after_what_was_put(count):
    before = set(threading.enumerate())
    devices = [StandIn(device=device) for device in range(count)]
    devices += [device.aside() for device in devices]
    arrays = [device.array(np.full(5, number)) for number, device in enumerate(devices)]
    streams = set(threading.enumerate()) - before
    assert len(streams) == 2 * count
    dropped = weakref.WeakSet(devices)
    devices.clear()
    gc.collect()
    assert comes(lambda: not dropped)  # by what was put, too
    assert comes(lambda: not any(stream.is_alive() for stream in streams))
    device = StandIn()
    for number, array in enumerate(arrays):
        assert (device.values(array) == number).all()


def test_memory_is_kept_while_a_stand_in_may_use_it():
    device = StandIn()
    pointer = device.array(np.arange(5)).pointer
    gc.collect()
    assert owned(pointer + 8)[0] == pointer
    with pytest.raises(AssertionError, match="nobody has"):
        owned(1)
