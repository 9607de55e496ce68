"""Jobs of programs of mpi4py."""

import os
import subprocess
import sys


def started(ranks, *command, cwd=None, seconds=60):
    words = ("-m", "collalgo", "run", "-n", str(ranks), "--as-mpi4py", *command)
    return subprocess.run(
        (sys.executable, *words),
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=seconds,
        env={**os.environ, "COLLALGO_TIMEOUT": "30"},
        check=False,
    )
