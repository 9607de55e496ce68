"""Tensor parallelism of vLLM on CPUs over the engine.

vLLM is large, and pins many packages: ``make vllm`` gives it an environment of its own.
"""

import os
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


def tokens(way, *launch):
    """What both ranks print: by the number of sequences the hash of the tokens, and how
    many of them differ. Without a launcher vLLM starts both, and its process prints.
    """
    run = (BIN / "python", "-m", "collalgo", "run", *launch) if launch else ()
    engine = ("-m", "collalgo.bench.vllm", "engine", way, "--tokens=8", "--repeats=1")
    # Without it every process would compile thousands of modules again.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    done = subprocess.run(
        [*run, BIN / "python", *engine], cwd=ROOT, env=environment,
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    found = RESULT.findall(done.stdout)
    assert len(found) == (4 if launch else 2), done.stdout
    return {(sequences, text, int(number)) for _, sequences, text, number, _ in found}


@pytest.mark.timeout(1220)  # it starts four engines
def test_a_decoder_makes_the_tokens_of_gloo_on_one_host_and_on_two(rsh):
    others = tokens("gloo", "-n", "2")
    assert {sequences for sequences, *_ in others} == {"1", "4"}
    assert len(others) == 2  # the ranks agree
    assert max(number for *_, number in others) > 4  # or the weights would be nothing
    assert tokens("collalgo", "-n", "2") == others
    assert tokens("collalgo", "-H", "a:1,b:1") == others
    assert tokens("collalgo") == others  # in workers that vLLM starts
