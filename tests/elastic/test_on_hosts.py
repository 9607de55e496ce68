"""Members on several hosts, which here are parts of one machine, die and come back."""

import os
import subprocess
import sys
import time
from contextlib import closing

import pytest

from collalgo.bootstrap.store.server import Server
from tests.launch.test_restarting import weights
from tests.support.paths import SCRIPTS
from tests.support.processes import ended
from tests.support.ucx import skip_without_ucx

pytestmark = pytest.mark.deadline

STEPS = 12


def member(server, hosts, rank, life, deaths, output):
    """A member, with the variables of a launcher."""
    env = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(len(hosts)),
        "TORCHELASTIC_RESTART_COUNT": str(life),
        "COLLALGO_JOB": "job",
        "COLLALGO_MEMBER": f"rank {rank}",
        "COLLALGO_RENDEZVOUS": f"collalgo://127.0.0.1:{server.port}",
        "COLLALGO_MEMBERS": f"1:{len(hosts)}",
        "COLLALGO_SECRET": b"secret".hex(),
        "COLLALGO_HOST": f"host {hosts[rank]}",
        "UCX_TLS": "tcp,self",
    }
    words = [sys.executable, SCRIPTS / "script_elastic.py", str(STEPS), deaths, "wait"]
    with output.open("w") as file:
        return subprocess.Popen(words, env=env, stdout=file, stderr=file)


@pytest.mark.slow
def test_a_member_dies_and_another_takes_its_place(tmp_path):
    skip_without_ucx()
    with closing(Server(b"secret", "127.0.0.1")) as server:
        made = [
            member(server, "001", rank, 0, "2:0:5", tmp_path / f"{rank}")
            for rank in range(3)
        ]
        with ended(made):
            made[2].wait(60)
            made.append(member(server, "001", 2, 1, "", tmp_path / "3"))
            end = time.monotonic() + 90
            while any(one.poll() is None for one in made) and time.monotonic() < end:
                time.sleep(0.05)
        told = {name: (tmp_path / name).read_text() for name in "013"}
    assert [one.returncode for one in made] == [0, 0, -9, 0], told
    for text in told.values():
        assert "3 members" in text
        assert weights(STEPS) in text
