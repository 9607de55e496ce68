"""Ranks as processes that connect by a URL."""

import os
import subprocess
import sys

RANK = """
import os, sys
import numpy as np, collalgo
rank, size, url, hosts = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if hosts == "several":
    os.environ["COLLALGO_HOST"] = str(rank % 2)
if url == "env://":
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    comm = collalgo.init(url)
else:
    comm = collalgo.init(url, rank=rank, size=size)
assert comm.allreduce(np.array([rank]))[0] == size * (size - 1) // 2
assert len(set(comm.hosts)) == (2 if hosts == "several" else 1)
print("right")
"""


def all_connect(url, tmp_path, hosts="one", size=3, **environment):
    script = tmp_path / "rank.py"
    script.write_text(RANK)
    ranks = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(size), url, hosts],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "UCX_TLS": "tcp,self", **environment},
        )
        for rank in reversed(range(size))
    ]  # fmt: skip
    said = [rank.communicate(timeout=60)[0] for rank in ranks]
    assert [(r.returncode, text) for r, text in zip(ranks, said, strict=True)] == [
        (0, "right\n")
    ] * size
