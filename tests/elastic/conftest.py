"""Jobs for the tests: rendezvous over each real store."""

import pytest

from collalgo.elastic.settings import Settings
from collalgo.elastic.store_rendezvous import StoreRendezvous
from tests.bootstrap.conftest import (  # noqa: F401
    connect,
    make_etcd,
    make_file,
    new_store,
    server,
)

#: Short times, so that tests are; the silence is the least that etcd takes.
QUICK = Settings(2, 3, last_call=0.1, silence=2.0, join_timeout=20.0)


@pytest.fixture
def node(new_store):  # noqa: F811
    """Start nodes of a job, over one of the stores."""
    started = []

    def start(name, settings=QUICK):
        made = StoreRendezvous(lambda lost: new_store(), "job j", settings, name)
        started.append(made)
        return made

    yield start
    for each in started:
        each.shutdown()
