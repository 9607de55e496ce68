"""Key-value stores for the tests: the embedded one, a folder, and a real etcd."""

import secrets
from functools import partial

import pytest

from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.store.server import Server
from collalgo.comm import current

SECRET = b"of the tests"


@pytest.fixture(autouse=True)
def _no_world():
    """Close the world of this process, which init() would return instead."""
    if current.of_process.world is not None:
        current.of_process.world.close()


@pytest.fixture
def server():
    store = Server(SECRET, "127.0.0.1")
    yield store
    store.close()


@pytest.fixture
def connect(server):
    """Connect a client with the embedded store."""
    clients = []

    def connect(secret=SECRET, timeout=5.0, **more):
        clients.append(Client(["127.0.0.1"], server.port, secret, timeout, **more))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture(params=["embedded", "etcd", "file"])
def new_store(request):
    """Connect with the embedded store, a prefix of etcd, or a folder."""
    if request.param == "embedded":
        yield request.getfixturevalue("connect")
        return
    stores = []
    make = request.getfixturevalue(f"make_{request.param}")

    def connect():
        stores.append(make())
        return stores[-1]

    yield connect
    for store in stores:
        store.close()


@pytest.fixture
def make_file(tmp_path):
    """Open a store in a folder."""
    return partial(FileStore, tmp_path / "store")


@pytest.fixture
def make_etcd(etcd):
    """Connect with a prefix of etcd, which is removed in the end."""
    make = partial(Etcd, [("127.0.0.1", etcd)], f"test {secrets.token_hex(4)}")
    yield make
    cleaner = make()
    cleaner.remove()
    cleaner.close()


@pytest.fixture
def opened(tmp_path):
    """Open the store in a folder."""
    made = []

    def opened():
        made.append(FileStore(tmp_path / "store"))
        return made[-1]

    yield opened
    for each in made:
        each.close()


def log_of(tmp_path):
    return tmp_path / "store" / "log"
