"""Survivors on several hosts, which here are parts of one machine."""

import os
import subprocess
import sys
from contextlib import closing

import pytest

from collalgo.bootstrap.store.server import Server
from tests.support.leisure import at_leisure
from tests.support.paths import SCRIPTS
from tests.support.processes import ended
from tests.support.ucx import skip_without_ucx

pytestmark = pytest.mark.deadline


def environment(rank, hosts, server):
    """The variables of a rank, as those of a launcher that holds the store."""
    return {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(len(hosts)),
        "LOCAL_WORLD_SIZE": str(hosts.count(hosts[rank])),
        "COLLALGO_HOST": f"host {hosts[rank]}",
        "COLLALGO_STORE": f"127.0.0.1:{server.port}",
        "COLLALGO_SECRET": b"secret".hex(),
        "UCX_TLS": "tcp,self",
    }


@pytest.mark.parametrize(
    ("hosts", "deaths"),
    at_leisure(
        [("012", "0"), ("0012", "0,3"), ("0011", "1,2,3")], {("012", "0")}
    ),
)  # fmt: skip
def test_survivors_of_several_hosts_go_on(hosts, deaths):
    skip_without_ucx()
    server = Server(b"secret")
    ranks = [
        subprocess.Popen(
            [sys.executable, SCRIPTS / "script_survivors.py", deaths],
            env=environment(rank, hosts, server),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(len(hosts))
    ]  # fmt: skip
    with closing(server), ended(ranks):
        told = [one.communicate(timeout=100)[0] for one in ranks]
        alive = [rank for rank, text in enumerate(told) if text.endswith("right\n")]
        assert alive == [r for r in range(len(hosts)) if str(r) not in deaths], told
