"""Survivors on hosts with networks of their own connect in the world that they have."""

import os
import re
import subprocess
import sys
from collections import Counter

import pytest
from collalgo.bench.cluster.kernel import inside
from collalgo.bench.disturbances.partitions import cluster, place_on

from tests.launch.test_restarting import weights
from tests.support.clusters import needs_root
from tests.support.paths import SCRIPTS
from tests.support.processes import ended
from tests.support.ucx import skip_without_ucx

pytestmark = [needs_root, pytest.mark.deadline]

#: Ranks of each of the three hosts, and the port of the store of the job.
PER_HOST, PORT = 2, 29417

STEPS = 16


def started(layout, hosts, deaths):
    """The agents of all hosts, of whose workers none is started again."""
    url = f"collalgo://{place_on(layout, hosts[0]).address}:{PORT}"
    words = [
        *("run", "--elastic", "--nodes", f"1:{len(hosts)}", "--per-node", PER_HOST),
        *("--rendezvous", url, "--id", "former", "--max-restarts", 0),
        *(sys.executable, SCRIPTS / "script_former_worlds.py"),
        *(len(hosts) * PER_HOST, STEPS, deaths),
    ]
    env = {**os.environ, "COLLALGO_SECRET": "00ff", "UCX_TLS": "tcp,self"}
    return [
        subprocess.Popen(
            inside(layout, host, sys.executable, "-m", "collalgo", *map(str, words)),
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for host in hosts
    ]  # fmt: skip


def test_survivors_use_their_world_until_the_holder_of_its_store_dies():
    """Rank 5, then its host, then rank 0, which holds the store of the world, die."""
    skip_without_ucx()
    with cluster("star") as layout:
        agents = started(layout, layout.hosts[:3], "5:4,4:8,0:12")
        with ended(agents):
            outputs = [agent.communicate(timeout=120)[0] for agent in agents]
    told = "\n".join(outputs)
    formerly = Counter(re.findall(r"formerly (.*)", told))
    assert formerly == {"(0, 1, 2, 3, 4)": 5, "(0, 1, 2, 3)": 4}, told
    sizes = Counter(re.findall(r"(\d) members from", told))
    assert (sizes["6"], sizes["3"]) == (6, 3), told
    assert re.findall(r"at last (.*)", told) == [weights(STEPS)] * 3, told
