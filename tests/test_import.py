"""Importing does no work, and brings in what is needed, no more and no less."""

import re
import subprocess
import sys

import pytest

from tests.support.paths import ROOT

PROGRAM = """
import os, sys, threading
import numpy
before = set(sys.modules)
descriptors = len(os.listdir("/proc/self/fd"))
import collalgo
new = {name.partition(".")[0] for name in set(sys.modules) - before}
heavy = {"mpi4py", "torch", "cupy", "networkx", "rich", "click", "socket", "ml_dtypes"}
assert not new & heavy, new & heavy
assert threading.active_count() == 1
assert len(os.listdir("/proc/self/fd")) == descriptors
"""


def printed_by(program: str) -> list[str]:
    """The words that a program prints."""
    line = [sys.executable, "-c", program]
    return subprocess.check_output(line, text=True, timeout=60).split()


def test_importing_starts_nothing():
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=60)


def test_a_job_starts_without_what_only_other_commands_need():
    program = """
import sys
import collalgo.cli.main, collalgo.cli.run, collalgo.launch.local
print(*{"rich", "yaml", "numpy", "networkx", "asyncio"} & set(sys.modules))
"""
    assert printed_by(program) == []


def test_a_rank_starts_without_what_only_some_jobs_need():
    program = """
import sys
import numpy
before = set(sys.modules)
import collalgo
collalgo.init()
rare = {"logging", "tempfile", "shutil", "fractions", "asyncio", "inspect", "yaml"}
rare |= {"hashlib", "collalgo.selection.rules", "collalgo.bootstrap.survivors"}
rare |= {"collalgo._kernels.engine.transport.composite"}
rare |= {"collalgo._kernels.comm.point_to_point.mailbox", "socket", "decimal"}
rare |= {"collalgo.bootstrap.store.protocol"}
print(*rare & (set(sys.modules) - before))
"""
    assert printed_by(program) == []


@pytest.mark.parametrize("collects", [True, False])
def test_an_import_leaves_the_collector_as_it_was(collects):
    program = f"""
import gc
import collalgo
(gc.enable if {collects} else gc.disable)()
collalgo.MismatchError
print(gc.isenabled())
"""
    assert printed_by(program) == [str(collects)]


@pytest.mark.parametrize("module", ["elastic", "errors"])
def test_public_modules_are_imported_when_they_are_used(module):
    program = f"""
import sys
import collalgo
print("{module}" in dir(collalgo), "collalgo.elastic" in sys.modules)
print(collalgo.{module}.__name__)
"""
    assert printed_by(program) == ["True", "False", f"collalgo.{module}"]


def test_every_public_name_is_documented():
    import collalgo

    for name in collalgo.__all__:
        value = getattr(collalgo, name)
        assert value.__doc__, name


@pytest.mark.parametrize(
    ("old", "new"), [("backwards", "reverse"), ("staggered", "pipeline")]
)
def test_former_names_work_with_a_warning_that_names_the_new_one(old, new):
    import collalgo

    for _ in range(2):  # also when it is not the first time
        with pytest.warns(DeprecationWarning, match=rf"collalgo\.{old} .*\.{new}$"):
            assert getattr(collalgo, old) is getattr(collalgo, new)
    assert old not in collalgo.__all__


def test_every_package_is_installed():
    """Whoever installs it gets what a clone has."""
    tomllib = pytest.importorskip("tomllib", reason="from Python 3.11 on")
    root = ROOT
    project = tomllib.loads((root / "pyproject.toml").read_text())
    told = project["tool"]["setuptools"]
    homes = told["package-dir"]
    listed = {root / homes.get(p, p.replace(".", "/")) for p in told["packages"]}
    found = {
        file.parent
        for home in ("collalgo", "bench", "topologies")
        for file in (root / home).rglob("*.py")
    }
    assert found <= listed


def test_ranks_on_one_host_import_only_what_the_demo_compiles_first(tmp_path):
    setup = (ROOT / "setup.py").read_text()
    later = re.search(r"NOT_FOR_FIRST = (re\.compile\(.*?\n\))", setup, re.DOTALL)[1]
    script = tmp_path / "script.py"
    script.write_text(f"""
import re, sys
import numpy
import collalgo
assert collalgo.allreduce(numpy.ones(1000))[0] == 2
print(sum(bool({later}.search(name)) for name in sys.modules))
""")
    job = [sys.executable, "-m", "collalgo", "run", "-n", "2", str(script)]
    said = subprocess.check_output(job, text=True, timeout=60)
    assert sorted(said.splitlines()) == ["[0] 0", "[1] 0"]
