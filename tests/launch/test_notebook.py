"""Functions of a notebook run on several hosts, in a real kernel of IPython."""

import os

import pytest

WORKS = """
import collalgo, numpy as np
bias = 0.5

def total(comm, x):
    print("hello from", comm.rank)
    return float(collalgo.allreduce(np.full(2, x))[0]) + bias

collalgo.run(total, (1.0,), hosts="a:1,b:1", timeout=60)
"""

FAILS = """
def fails(comm):
    if comm.rank == 1:
        raise KeyError("planted")
    comm.barrier()

collalgo.run(fails, hosts="a:1,b:1", timeout=60)
"""

WAITS = """
def waits(comm):
    print("waits", comm.rank, flush=True)
    comm.recv(np.ones(1), 1 - comm.rank)

collalgo.run(waits, hosts="a:1,b:1", timeout=60)
"""


class Notebook:
    """A kernel that runs cells one after the other."""

    def __init__(self, start):
        self.kernel, self.client = start(env=dict(os.environ))
        self.interrupt_at = None
        self.said = ""

    def run(self, cell, interrupt_at=None):
        """Run a cell; its output, its result and its error as text."""
        self.said, self.interrupt_at = "", interrupt_at
        self.client.execute_interactive(cell, timeout=60, output_hook=self._hear)
        return self.said

    def _hear(self, message):
        content = message["content"]
        self.said += content.get("text", "")
        self.said += content.get("data", {}).get("text/plain", "")
        self.said += "\n".join(content.get("traceback", ""))
        if self.interrupt_at is not None and self.interrupt_at in self.said:
            self.interrupt_at = None
            self.kernel.interrupt_kernel()

    def close(self):
        self.client.stop_channels()
        self.kernel.shutdown_kernel(now=True)


@pytest.fixture
def notebook(rsh):
    pytest.importorskip("ipykernel", reason="it needs: pip install ipykernel")
    pytest.importorskip("cloudpickle")
    from jupyter_client.manager import start_new_kernel

    found = Notebook(start_new_kernel)
    yield found
    found.close()


def test_functions_of_a_notebook_run_on_several_hosts(notebook):
    said = notebook.run(WORKS)
    assert said.endswith("[2.5, 2.5]"), said
    assert "[0] hello from 0\n" in said
    assert "[1] hello from 1\n" in said
    said = notebook.run(FAILS)
    assert "planted" in said, said
    assert "raised on rank 1" in said
    said = notebook.run(WAITS, interrupt_at="waits 1")
    assert "KeyboardInterrupt" in said, said
    assert notebook.run("1 + 1") == "2"
