"""The rendezvous of torchrun in collalgo's store, in an environment that has torch."""

import os
import signal
import subprocess
import time
from contextlib import closing, suppress

import pytest

from collalgo.bootstrap.store.server import Server
from collalgo.bootstrap.user_secret import user_secret
from tests.support.leisure import at_leisure
from tests.support.paths import SCRIPTS
from tests.support.torch_environment import BIN, NEEDS_TORCH

pytestmark = NEEDS_TORCH


def torchrun_node(endpoint, output, *arguments):
    """An agent of torchrun for a node of an elastic job."""
    words = [
        BIN / "python", "-m", "torch.distributed.run", "--rdzv-backend=collalgo",
        f"--rdzv-endpoint={endpoint}", "--rdzv-id=job", "--nnodes=1:2",
        "--monitor-interval=0.05", SCRIPTS / "script_torchrun_member.py", *arguments,
    ]  # fmt: skip
    with output.open("w") as file:
        return subprocess.Popen(
            words, cwd=output.parent, stdout=file, stderr=file, start_new_session=True
        )


@pytest.mark.deadline
@pytest.mark.parametrize("calls", at_leisure(["none", "calls"], {"none"}))
def test_torchrun_goes_on_without_a_node_that_is_lost(tmp_path, calls):
    """No worker fails, but the agents are told that they have to meet again."""
    with closing(Server(user_secret(), "127.0.0.1")) as server:
        where = f"127.0.0.1:{server.port}"
        nodes = [torchrun_node(where, tmp_path / name, "1", calls) for name in "ab"]
        try:
            deadline = time.monotonic() + 60
            while not all("of 2" in (tmp_path / name).read_text() for name in "ab"):
                assert time.monotonic() < deadline, (tmp_path / "a").read_text()
                time.sleep(0.05)
            nodes[1].kill()
            assert nodes[0].wait(60) == 0, (tmp_path / "a").read_text()
        finally:
            for each in nodes:
                with suppress(ProcessLookupError):
                    os.killpg(each.pid, signal.SIGKILL)
                each.wait()
    assert "rank 0 of 1" in (tmp_path / "a").read_text()
