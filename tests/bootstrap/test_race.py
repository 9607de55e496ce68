"""Connections with the first of several servers that can be reached."""

import errno
import socket
import time
from contextlib import ExitStack, closing

import pytest

from collalgo.bootstrap.store import etcd_gateway, etcd_wait, race as race_module
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.bootstrap.store.race import Race


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


def test_an_address_of_a_family_that_this_host_lacks_is_left_out(servers, monkeypatch):
    good = servers("open")
    infos = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", good[1], 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", good),
    ]

    class WithoutIPv6(socket.socket):
        def __init__(self, family, *more):
            if family == socket.AF_INET6:
                raise OSError(errno.EAFNOSUPPORT, "not supported")
            super().__init__(family, *more)

    monkeypatch.setattr(race_module.socket, "getaddrinfo", lambda *_, **__: infos)
    monkeypatch.setattr(race_module.socket, "socket", WithoutIPv6)
    race = Race([good])
    _, connection = race.run(5)
    connection.close()
    assert "not supported" in race.problems[good]


def test_a_name_that_takes_long_to_resolve_costs_the_others_nothing(
    servers, monkeypatch
):
    silent, good, real = servers("silent"), servers("open"), socket.getaddrinfo

    def slow(host, *more, **named):
        time.sleep(0.3)
        return real(host, *more, **named)

    monkeypatch.setattr(race_module.socket, "getaddrinfo", slow)
    winner, connection = Race([silent, good]).run(0.2)
    connection.close()
    assert winner == good


def test_a_member_that_does_not_answer_is_awaited_once(monkeypatch):
    monkeypatch.setattr(etcd_wait, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(etcd_wait, "ANSWER_SECONDS", 0.05)  # but 10 s of the socket
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = etcd_gateway.Gateway([silent.getsockname()])
        with pytest.raises(StoreError, match=r"has not answered within 0\.05 s"):
            gateway.ask("kv/range", {})
        gateway.close()
