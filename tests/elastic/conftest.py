"""Jobs for the tests: rendezvous over each real store."""

from dataclasses import replace
from functools import partial

import pytest

from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.server import Server
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

#: Those of three members that all come: a late one is not left out.
FULL = replace(QUICK, last_call=10.0)


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


@pytest.fixture
def meet():
    """Rendezvous of a job, over an embedded store; they end with the test."""
    servers, made = [], []

    def start(name, least=1, most=3):
        settings = Settings(least, most, last_call=0.2, silence=2.0, join_timeout=20.0)
        client = partial(Client, ["127.0.0.1"], servers[-1].port, b"key", 2.0)
        made.append(StoreRendezvous(client, "job j", settings, name))
        return made[-1]

    start.next = lambda: servers.append(Server(b"key", "127.0.0.1"))
    start.next()
    yield start
    for each in made:
        each.shutdown()
    for each in servers:
        each.close()
