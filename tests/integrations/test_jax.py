"""Arrays of JAX in host memory, which no call changes."""

import subprocess

from tests.support.paths import ROOT, SCRIPTS
from tests.support.torch_environment import BIN, NEEDS_JAX


@NEEDS_JAX
def test_calls_on_arrays_of_jax_give_new_ones_and_change_none():
    words = [BIN / "python", SCRIPTS / "script_jax.py"]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("right\n")
