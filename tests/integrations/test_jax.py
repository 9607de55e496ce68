"""Arrays of JAX in host memory, which no call changes."""

import subprocess

import pytest

from tests.support.paths import ROOT, SCRIPTS
from tests.support.torch_environment import BIN

NEEDS_JAX = pytest.mark.skipif(
    not [*BIN.parent.glob("lib/python*/site-packages/jax/__init__.py")],
    reason="JAX is large: make torch",
)


@NEEDS_JAX
def test_calls_on_arrays_of_jax_give_new_ones_and_change_none():
    words = [BIN / "python", SCRIPTS / "script_jax.py"]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("right\n")
