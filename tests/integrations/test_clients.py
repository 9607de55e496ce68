"""Frameworks on torch, and Ray: each with collalgo and with what it replaces.

They are large: ``make clients`` installs them beside torch.
"""

import os
import re
import subprocess
import sys

import pytest
from collalgo.bench.clients import framework_on

from tests.support.paths import ROOT, SCRIPTS
from tests.support.torch_environment import BIN, NEEDS_TORCH

pytestmark = [NEEDS_TORCH, pytest.mark.slow]

#: The package of each framework.
PACKAGES = {
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "horovod": "horovod",
    "lightning": "pytorch_lightning",
}


def needs(package):
    """Skip the test where a package is missing."""
    if not [*BIN.parent.glob(f"lib/python*/site-packages/{package}/__init__.py")]:
        target = "horovod" if package == "horovod" else "clients"
        pytest.skip(f"{package} is not installed: make {target}")


def result(*words):
    """What a script prints as its result: the backend and a number, on each rank."""
    done = subprocess.run(
        [*map(str, words)],
        cwd=ROOT, capture_output=True, text=True, timeout=550, check=False,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"result (\w+) (\S+)", done.stdout)


def losses(command):
    """The backend and the loss that each of two ranks prints."""
    found = result(*command, "--parameters=0.05", "--steps=8")
    assert len(found) == 2
    return [backend for backend, _ in found], {loss for _, loss in found}


@pytest.mark.parametrize("client", PACKAGES)
def test_a_framework_trains_as_with_gloo_by_one_changed_line(client, monkeypatch):
    needs(PACKAGES[client])
    monkeypatch.setattr(sys, "executable", str(BIN / "python"))
    ours, others = (
        losses(framework_on(backend, client, 2)) for backend in ("collalgo", "gloo")
    )
    assert ours == (["collalgo"] * 2, others[1])
    assert others == (["gloo"] * 2, ours[1])
    assert len(ours[1]) == 1


def test_workers_of_ray_train_call_through_us():
    needs("ray/train")
    needs("pyarrow")
    script = (BIN / "python", SCRIPTS / "script_ray_train.py")
    # Ray may repeat a line.
    (ours,), (others,) = ({*result(*script, each)} for each in ("collalgo", "gloo"))
    assert ours == ("collalgo", others[1])


@pytest.mark.parametrize("size", [2, 3])
def test_actors_of_ray_call_through_us(size):
    needs("ray")
    words = [BIN / "python", SCRIPTS / "script_ray.py", str(size)]
    done = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False,
        env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("collective: right\n")
