"""What no job can have is refused at once: sizes, ports, secrets."""

import pytest

import collalgo
from collalgo import BootstrapError
from collalgo.bootstrap.store.at_url import store_place


@pytest.mark.parametrize("url", ["env://", None])
@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"MASTER_PORT": "abc"}, "MASTER_PORT is 'abc', not a port"),
        ({"MASTER_PORT": "99999"}, "MASTER_PORT is '99999', not a port"),
        ({"WORLD_SIZE": "5000"}, "5000 ranks on one host; it can hold 4096 at most"),
        ({"WORLD_SIZE": "9" * 20}, "need 0 <= rank < size <= 131072"),
    ],
)
def test_variables_that_cannot_be_are_refused_at_once(
    monkeypatch, url, variables, message
):
    collalgo.init().close()
    usual = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "localhost"}
    for name, value in (usual | {"MASTER_PORT": "1"} | variables).items():
        monkeypatch.setenv(name, value)
    if url is None and "MASTER_PORT" in variables:
        collalgo.init().close()  # which has no use for the port
        return
    with pytest.raises(BootstrapError, match=message):
        collalgo.init(url)


def test_secrets_and_sizes_that_cannot_be_are_refused():
    collalgo.init().close()
    for secret in (5, b"aa"):
        with pytest.raises(TypeError, match=r"init: secret is of type .*; pass a text"):
            collalgo.init("tcp://localhost:1", rank=1, size=2, secret=secret)
    with pytest.raises(TypeError, match="secret of a job is str; pass bytes"):
        store_place("localhost:1", "job", secret="aa")
    with pytest.raises(ValueError, match="from 1 to 131072"):
        collalgo.init("tcp://localhost:1", rank=0, size=2**31)
