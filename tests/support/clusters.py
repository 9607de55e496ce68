"""Clusters of namespaces for tests, and what runs on them."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from collalgo.bench.cluster.kernel import namespace
from collalgo.bench.cluster.layout import layout_of_file

from collalgo.errors import BootstrapError
from collalgo.launch.etcd_member import etcd_program
from tests.support.paths import ROOT

FILES = ROOT / "bench" / "cluster" / "files"

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("ip", "tc", "unshare"))),
    reason="namespaces need root, and the ip and tc of iproute2",
)


def skip_without_etcd():
    """The path of etcd; skip the test where there is none."""
    try:
        return etcd_program()
    except BootstrapError as error:
        pytest.skip(str(error))


def layout(name):
    """A cluster by the name of its file; each worker of tests has one of its own.

    It is not the cluster of the file, which a user may have up meanwhile.
    """
    plan = layout_of_file(FILES / f"{name}.yaml")
    plan.name += f"-tests{os.environ.get('PYTEST_XDIST_WORKER', '')}"
    return plan


def ranks_in(plan, *hosts):
    """The processes of ranks on some hosts."""
    for host in hosts:
        name = namespace(plan, host)
        listed = subprocess.run(
            ["ip", "netns", "pids", name], capture_output=True, text=True, check=True
        )
        for process in listed.stdout.split():
            with suppress(OSError):
                words = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
                if words[0] == sys.executable.encode():
                    yield int(process)
