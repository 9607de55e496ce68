"""Connections with the first of several servers that can be reached."""

import socket
from contextlib import ExitStack, closing

import pytest

from collalgo.bootstrap.store.race import Race

pytestmark = pytest.mark.parallel


@pytest.fixture
def servers():
    """Servers that answer, refuse, or do not answer at all."""
    with ExitStack() as held:

        def server(kind):
            if kind == "unknown":
                return "nowhere.invalid", 1
            made = held.enter_context(socket.socket())
            made.bind(("127.0.0.1", 0))
            if kind != "closed":
                made.listen(0)
            if kind == "silent":  # as its queue is full, the kernel drops connections
                held.enter_context(socket.create_connection(made.getsockname()))
            return "localhost" if kind == "named" else "127.0.0.1", made.getsockname()[
                1
            ]

        yield server


KINDS = ["closed", "silent", "unknown"]


@pytest.mark.parametrize("before", [[], *[[kind] for kind in KINDS], KINDS * 2])
@pytest.mark.parametrize("kind", ["open", "named"])
def test_the_first_server_that_answers_is_used(servers, before, kind):
    others = [servers(each) for each in before]
    race = Race([*others, good := servers(kind), servers("open")])
    winner, connection = race.run(20)
    with closing(connection):
        assert winner == good
        assert connection.getpeername()[1] == good[1]
    assert set(race.problems) - {good} == set(others)


@pytest.mark.parametrize("kinds", [[], *[[kind] for kind in KINDS], KINDS * 2])
def test_servers_that_cannot_be_reached_are_named_with_the_reason(servers, kinds):
    asked = [servers(kind) for kind in kinds]
    race = Race(asked)
    assert race.run(0.5) is None
    assert set(race.problems) == set(asked)
    reasons = {"closed": "Connection refused", "silent": "it does not answer"}
    for server, kind in zip(asked, kinds, strict=True):
        assert reasons.get(kind, "") in race.problems[server]
