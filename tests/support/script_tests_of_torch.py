"""Torch's own tests of backends of its rendezvous, on our stores: a script.

``FOLDER`` is a copy of torch's repository. Torch keeps its whole state under one key,
which it changes by compare-and-set.
"""

import sys
import tempfile
import unittest
from contextlib import closing
from hashlib import sha256
from pathlib import Path

sys.path.insert(0, str(Path(sys.argv[1], "test/distributed/elastic/rendezvous")))

from dynamic_rendezvous_test import IntegrationTest
from rendezvous_backend_test import RendezvousBackendTestMixin
from torch.distributed.elastic.rendezvous import RendezvousStateError
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import (
    RendezvousBackend,
)

from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.store.protocol import ABSENT
from collalgo.bootstrap.store.server import Server

SECRET = b"of the tests"
DIGEST_BYTES = sha256().digest_size


class Backend(RendezvousBackend):
    """A backend of torch's rendezvous in one of our stores; versions are its tokens."""

    name = "collalgo"

    def __init__(self, store):
        self.store = store

    def get_state(self):
        entry = self.store.read("state")
        return None if entry is None else (state_of(entry), entry.version)

    def set_state(self, state, token=None):
        version = ABSENT if token is None else token
        if not isinstance(version, int):
            found = self.get_state()
            return None if found is None else (*found, False)
        value = sha256(state).digest() + state
        done, entry = self.store.compare_set("state", value, version)
        return None if entry is None else (state_of(entry), entry.version, done)


def state_of(entry):
    digest, state = entry.value[:DIGEST_BYTES], entry.value[DIGEST_BYTES:]
    if sha256(state).digest() != digest:
        raise RendezvousStateError("the digest is wrong")
    return state


class Embedded:
    """A backend for each test in an embedded store."""

    def setUp(self):
        super().setUp()
        server = self.enterContext(closing(Server(SECRET, "127.0.0.1")))
        client = Client(["127.0.0.1"], server.port, SECRET, 5.0)
        self._backend = Backend(self.enterContext(closing(client)))


class Folder:
    """A backend for each test in a folder."""

    def setUp(self):
        super().setUp()
        store = FileStore(Path(self.enterContext(tempfile.TemporaryDirectory()), "it"))
        self._backend = Backend(self.enterContext(closing(store)))


class Corrupting:
    def _corrupt_state(self):
        self._backend.store.set("state", b"what torch did not write")


class BackendInServer(
    Embedded, Corrupting, RendezvousBackendTestMixin, unittest.TestCase
):
    """A backend in the embedded store."""


class BackendInFolder(
    Folder, Corrupting, RendezvousBackendTestMixin, unittest.TestCase
):
    """A backend in a folder."""


class HandlersInServer(Embedded, IntegrationTest):
    """Torch's handlers, which meet in the embedded store."""


class HandlersInFolder(Folder, IntegrationTest):
    """Torch's handlers, which meet in a folder."""


def failed(*cases):
    """The tests of some classes that fail, of all that are run, and how many those are.

    A copy may be of another version than the torch that is installed.
    """
    load = unittest.defaultTestLoader.loadTestsFromTestCase
    suite = unittest.TestSuite(map(load, cases))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    wrong = result.errors + result.failures
    return {test.id().rpartition(".")[2] for test, _ in wrong}, result.testsRun


with_torch_s_own, _ = failed(IntegrationTest)
cases = BackendInServer, BackendInFolder, HandlersInServer, HandlersInFolder
with_ours, count = failed(*cases)
assert with_ours <= with_torch_s_own, with_ours - with_torch_s_own
print(f"{count} tests, of which torch's own backend fails {sorted(with_torch_s_own)}")
