"""What all tests share."""

import gc
import os
import subprocess

import pytest
from collalgo.bench.cluster.kernel import down, is_up, up
from hypothesis import HealthCheck, settings

from collalgo import ALGORITHMS
from collalgo.base import console
from collalgo.comm import shared_kinds
from collalgo.cost.copy_policy import CopyPolicy
from tests.support.clusters import layout, skip_without_etcd
from tests.support.ports import await_server, reserved_ports

# The many processes that tests start would each compile all sources again, or write
# each line in two pieces, between which mpiexec puts those of other ranks.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
os.environ.pop("PYTHONUNBUFFERED", None)


# How long an example takes depends on how busy the machine is.
settings.register_profile(
    "collalgo", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("collalgo")

# Tests change what prices are made of; the few of kept choices switch these on.
os.environ["COLLALGO_CACHE"] = "off"

# Commands that tests invoke have one output, in which progress would be among results.
console.UNSEEN = 1e6
console._lines = console.Lines()


def pytest_collection_finish():
    """Exempt the collected tests from garbage collection: they live to the end."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _copy_policies():
    """Forget the tables of copy policies, whose constants a test may have changed, and
    the programs that follow them.
    """
    yield
    CopyPolicy.by_size.cache_clear()
    shared_kinds.forget()


@pytest.fixture(autouse=True)
def _catalogue():
    """Leave the catalogue as it was: a row of a user changes what others choose."""
    before = list(ALGORITHMS)
    yield
    ALGORITHMS[:] = before


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory):
    """Keep the figures of the machine out of the user's cache, for children too."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before


@pytest.fixture
def rsh(tmp_path, monkeypatch):
    """What stands for ssh: the same machine under every name but one."""
    script = tmp_path / "rsh"
    script.write_text(
        "#!/bin/sh\n"
        '[ "$1" = nowhere ] && { echo "no route to $1" >&2; exit 255; }\n'
        'shift; exec sh -c "$*"\n'
    )
    script.chmod(0o700)
    monkeypatch.setenv("COLLALGO_RSH", str(script))
    monkeypatch.setenv("UCX_TLS", "tcp,self")  # as between real hosts


@pytest.fixture
def cluster():
    """Brings up clusters by the names of their files, and takes them down."""
    made = []

    def bring_up(name):
        made.append(layout(name))
        down(made[-1])  # of a run that was killed
        up(made[-1])
        return made[-1]

    yield bring_up
    for each in made:
        down(each)
        assert not is_up(each)


@pytest.fixture
def reserved_port():
    """A port for a server of the test alone."""
    with reserved_ports(1) as (port,):
        yield port


@pytest.fixture(scope="session")
def etcd(tmp_path_factory):
    """The port of an etcd that runs for the tests."""
    program = skip_without_etcd()
    with reserved_ports(2) as (port, peers):
        clients, among = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peers}"
        server = subprocess.Popen(
            [program, "--data-dir", str(tmp_path_factory.mktemp("etcd")),
             "--listen-client-urls", clients, "--advertise-client-urls", clients,
             "--listen-peer-urls", among, "--initial-advertise-peer-urls", among,
             "--initial-cluster", f"default={among}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        await_server(server, port)
        yield port
        server.kill()
        server.wait()


#: What tests share, scripts of ranks among it, which look at their arguments.
collect_ignore = ["support"]
