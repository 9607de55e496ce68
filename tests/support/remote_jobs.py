"""Jobs on several hosts, which are names of one machine."""

import re
import subprocess
import sys
from collections import defaultdict

from tests.support.paths import SCRIPTS

SCRIPT = SCRIPTS / "script_across_hosts.py"


def command(hosts, *words):
    return [sys.executable, "-m", "collalgo", "run", "-H", hosts, *map(str, words)]


def run(hosts, *words, timeout=120):
    return subprocess.run(
        command(hosts, *words),
        capture_output=True, text=True, timeout=timeout, check=False,
    )  # fmt: skip


def all_do(duty, layout):
    parts = layout.split("+")
    hosts = ",".join(f"{name}:{n}" for name, n in zip("abcd", parts, strict=False))
    done = run(hosts, SCRIPT, duty, layout)
    assert done.returncode == 0, done.stdout + done.stderr
    size = sum(map(int, parts))
    assert all(f"right {rank};" in done.stdout for rank in range(size)), done.stdout
    return done


#: What three ranks are told of the failures of ``script_across_hosts.py``, in turn.
FAILURES = (
    r"passed 1000 elements but rank \d passed 1001|passed 1001 elements but",
    r"for rank 2, whose last call was allreduce #1 \(7 float64",
    "rank 2 is gone: its communicator was closed",
)


def check_failures(output):
    """Check that all ranks are told the same of each failure; the last one leaves."""
    told = defaultdict(list)
    for rank, what in re.findall(r"told (\d): (.*?)\.\n", output):
        told[rank].append(what)
    assert {rank: len(each) for rank, each in told.items()} == {"0": 3, "1": 3, "2": 2}
    assert told["0"] == told["1"]
    assert told["0"][:2] == told["2"]
    for pattern, what in zip(FAILURES, told["0"], strict=True):
        assert re.search(pattern, what), what
