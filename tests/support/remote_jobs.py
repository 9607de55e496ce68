"""Jobs on several hosts, which are names of one machine."""

import subprocess
import sys

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
