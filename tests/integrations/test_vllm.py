"""Tensor parallelism of vLLM on CPUs over the engine.

vLLM is large, and pins many packages: ``make vllm`` gives it an environment of its own.
"""

import subprocess

import pytest
from collalgo.bench.vllm import RESULT

from tests.support.paths import ROOT

BIN = ROOT / ".venv-vllm" / "bin"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (BIN.parent / "installed").exists(), reason="vLLM is large: make vllm"
    ),
]


def tokens(way):
    """By the number of sequences, the hash of the tokens and how many differ."""
    done = subprocess.run(
        [BIN / "python", "-m", "collalgo.bench.vllm", "engine", way, "--tokens=16"],
        cwd=ROOT, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = RESULT.findall(done.stdout)
    assert len(found) == 6, done.stdout
    return {(sequences, text, int(number)) for _, sequences, text, number, _ in found}


@pytest.mark.timeout(2900)  # it starts three engines
def test_a_decoder_on_two_ranks_makes_the_tokens_of_vllm():
    ours = tokens("collalgo")
    assert ours == tokens("shm") == tokens("gloo")
    assert {sequences for sequences, *_ in ours} == {"1", "4"}
    assert max(number for *_, number in ours) > 4  # or the weights would be nothing
