"""URLs of a store that several nodes hold together."""

import pytest

from collalgo.bootstrap.store.at_url import store_place
from collalgo.bootstrap.store.etcd_members import members_of, split_url
from collalgo.bootstrap.store.replicated import ReplicatedStore

SECRET = bytes(range(16))


def at(members, secret=SECRET):
    return ReplicatedStore.at(split_url(f"replicated://{members}"), "job", "me", secret)


def test_each_member_is_a_host_and_a_port():
    store = at("a:4001,b:4002,[fe80::1]:4001")
    assert store.servers == (("a", 4001), ("b", 4002), ("fe80::1", 4001))
    assert store.hosts == ["a", "b", "fe80::1"]


@pytest.mark.parametrize("end", ["", "/", "/a?b,[c", "?b"])
def test_a_url_has_addresses_of_ipv6_at_any_place(end):
    for netloc in ("[fe80::1]:1,b:2", "b:2,[fe80::1]:1", "a,b,[fe80::1]"):
        url = store_place(f"etcd://{netloc}{end}", "job").url
        assert (url.geturl(), url.netloc) == (f"etcd://{netloc}{end}", netloc)
        assert "fe80::1" in dict(members_of(url.netloc))


@pytest.mark.parametrize("netloc", ["a,[fe80::1", "a,fe80::1]"])
def test_brackets_around_no_address_are_refused(netloc):
    with pytest.raises(ValueError, match=r"is not a URL|invalid port"):
        store_place(f"etcd://{netloc}", "job")


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
