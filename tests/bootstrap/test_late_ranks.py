"""A process that waits for others to join says so after some seconds."""

import pytest

import collalgo
from collalgo.bootstrap import late_ranks


@pytest.fixture
def _soon(monkeypatch):
    monkeypatch.setattr(late_ranks, "NOTICE_SECONDS", 0.1)


def join_alone(monkeypatch, rank, size, **variables):
    for name, value in {"RANK": rank, "WORLD_SIZE": size, **variables}.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(collalgo.BootstrapError):
        collalgo.init(join_timeout=1)


@pytest.mark.usefixtures("_soon")
@pytest.mark.parametrize(
    ("rank", "missing"), [(0, [1, 2]), (1, [0])], ids=["root", "peer"]
)
def test_a_rank_of_a_host_warns_once_of_those_that_are_late(
    monkeypatch, caplog, rank, missing
):
    join_alone(monkeypatch, rank, 3)
    (record,) = caplog.records
    expected = f"rank {rank} waits for ranks {missing} of 3 to join, for at most "
    assert record.getMessage().startswith(expected)


@pytest.mark.usefixtures("_soon")
def test_the_root_of_several_hosts_warns_once(monkeypatch, caplog, reserved_port):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": reserved_port}
    join_alone(monkeypatch, 0, 3, **address)
    (record,) = caplog.records
    assert "rank 0 waits for ranks [1, 2] of 3 to join" in record.getMessage()
