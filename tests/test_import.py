"""Importing does no work, and does not bring in what is not needed."""

import subprocess
import sys

PROGRAM = """
import os, sys, threading
import numpy
before = set(sys.modules)
descriptors = len(os.listdir("/proc/self/fd"))
import collalgo
new = {name.partition(".")[0] for name in set(sys.modules) - before}
heavy = {"mpi4py", "torch", "cupy", "networkx", "rich", "click", "socket", "ml_dtypes"}
assert not new & heavy, new & heavy
assert threading.active_count() == 1
assert len(os.listdir("/proc/self/fd")) == descriptors
"""


def test_importing_starts_nothing():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_every_public_name_is_documented():
    import collalgo

    for name in collalgo.__all__:
        value = getattr(collalgo, name)
        assert value.__doc__, name
