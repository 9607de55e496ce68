"""URLs of a store that several nodes hold together."""

from urllib.parse import urlsplit

import pytest

from collalgo.bootstrap.store.replicated import ReplicatedStore

SECRET = bytes(range(16))


def at(members, secret=SECRET):
    return ReplicatedStore.at(urlsplit(f"replicated://{members}"), "job", "me", secret)


def test_each_member_is_a_host_and_a_port():
    store = at("a:4001,b:4002,[fe80::1]:4001")
    assert store.servers == (("a", 4001), ("b", 4002), ("fe80::1", 4001))
    assert store.hosts == ["a", "b", "fe80::1"]


@pytest.mark.parametrize(
    "members",
    ["a:1,b:1", "a:1,a:1,b:1", "a:1,b:1,:1", "a:1,b:1,c:65535", "a:1,b:1,c:1/path", ""],
)
def test_members_that_could_not_replace_one_another_are_refused(members):
    with pytest.raises(ValueError, match="pass at least 3 different ones"):
        at(members)


def test_a_port_that_is_no_number_is_named():
    with pytest.raises(ValueError, match="invalid port"):
        at("a:1,b:1,c:x")


def test_a_short_secret_serves_on_one_host_only():
    with pytest.raises(ValueError, match="has 3 bytes but needs at least 16"):
        at("127.0.0.1:1,127.0.0.1:3,a:1", b"abc")
    assert at("127.0.0.1:1,127.0.0.1:3,localhost:1", b"abc").secret == b"abc"
