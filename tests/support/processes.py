"""Processes that a test starts."""

from contextlib import contextmanager


@contextmanager
def ended(processes):
    """End processes after a block, whatever has happened in it; others may be added."""
    try:
        yield processes
    finally:
        for each in processes:
            each.kill()
            each.wait()
            if each.stdout is not None:
                each.stdout.close()
