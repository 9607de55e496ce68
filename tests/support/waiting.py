"""How tests wait for an event."""

import time


def is_soon(happens):
    """Whether something happens while nobody helps."""
    until = time.monotonic() + 20
    while not happens() and time.monotonic() < until:
        time.sleep(0.001)
    return happens()
