"""Tensor parallelism of vLLM on CPUs over the engine.

vLLM is large, and pins many packages: ``make vllm`` gives it an environment of its own.
"""

import os
import re
import subprocess

import pytest

from tests.support.paths import ROOT, SCRIPTS

BIN = ROOT / ".venv-vllm" / "bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BIN.parent / "installed").exists(), reason="vLLM is large: make vllm"
    ),
]


def results(path, folder):
    """The hash of the tokens, and the number of different ones, over some path."""
    done = subprocess.run(
        [BIN / "python", SCRIPTS / "script_vllm.py", path, folder],
        cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(rf"result {path} (\w+) (\d+) [\d.]+", done.stdout)
    assert len(found) == 3, done.stdout
    return set(found)


def test_a_decoder_on_two_ranks_makes_the_tokens_of_vllm(tmp_path):
    ours = results("collalgo", tmp_path)
    assert ours == results("shm", tmp_path) == results("gloo", tmp_path)
    ((_, different),) = ours
    assert int(different) > 4  # or the weights would be nothing
