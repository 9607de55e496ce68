"""The names under which ranks meet cannot be guessed by other users of the host."""

import os
import socket
import stat
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from collalgo.bootstrap import join as joining
from collalgo.bootstrap.identity import identity
from collalgo.bootstrap.join_arguments import JoinArguments
from collalgo.bootstrap.rendezvous import address_of
from collalgo.bootstrap.store.hosting import secret_of_job
from collalgo.bootstrap.user_secret import SECRET_BYTES, user_secret
from collalgo.errors import RendezvousError

#: The variables of each launcher that names a job by what all users can see.
LAUNCHED = {
    "torchrun": {
        "RANK": "{rank}", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "x",
    },
    "horovodrun": {
        "HOROVOD_RANK": "{rank}", "HOROVOD_SIZE": "3", "HOROVOD_LOCAL_SIZE": "3",
    },
    "srun": {
        "SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "{rank}",
        "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_NUM_NODES": "1",
    },
    "by hand": {"RANK": "{rank}", "WORLD_SIZE": "3"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache folder and a temporary folder of their own; the former."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "tmp"))
    user_secret.cache_clear()
    yield tmp_path / "cache" / "collalgo"
    user_secret.cache_clear()


def launched(name, rank):
    return identity({k: v.format(rank=rank) for k, v in LAUNCHED[name].items()})


@pytest.mark.deadline
@pytest.mark.parametrize("name", LAUNCHED)
def test_ranks_meet_although_what_their_launcher_calls_the_job_is_occupied(name):
    """Who sees the variables of the launcher knows all but the secret of the user."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as occupied:
        occupied.bind(address_of(launched(name, 0).job))
        with ThreadPoolExecutor(3) as pool:
            found = pool.map(
                lambda rank: joining._join_launched(
                    JoinArguments(timeout=20), launched(name, rank)
                ),
                range(3),
            )
            for context in found:
                context.transport.close()


@pytest.mark.deadline
def test_the_name_of_a_job_of_collalgo_run_needs_no_secret(cache):
    me = identity({"RANK": "0", "WORLD_SIZE": "3", "COLLALGO_JOB": "f00"})
    assert joining._rendezvous_name(me) == "f00"
    assert not cache.exists()


@pytest.mark.deadline
def test_processes_that_need_the_secret_at_once_find_the_same(cache):
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: user_secret.__wrapped__(), range(32)))
    assert found == {(cache / "private" / "secret").read_bytes()}
    assert len(found.pop()) == SECRET_BYTES
    assert os.listdir(cache / "private") == ["secret"]


def test_only_the_user_can_read_the_secret(cache):
    user_secret()
    for path, mode in ((cache / "private", 0o700), (cache / "private/secret", 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode


def open_to_all(private):
    private.chmod(0o755)


def readable(private):
    (private / "secret").chmod(0o644)


def cut(private):
    (private / "secret").write_bytes(b"short")


def linked(private):
    (private / "secret").rename(private / "other")
    (private / "secret").symlink_to(private / "other")


def of_another_user(private):
    os.chown(private / "secret", 65534, 65534)


@pytest.mark.parametrize("spoil", [open_to_all, readable, cut, linked, of_another_user])
def test_a_secret_that_others_may_know_is_not_used(cache, tmp_path, spoil, caplog):
    if spoil is of_another_user and os.geteuid():
        pytest.skip("only root can give a file away")
    known = user_secret()
    user_secret.cache_clear()
    spoil(cache / "private")
    fresh = user_secret()
    (kept,) = (tmp_path / "tmp").glob("collalgo-*/secret")
    assert fresh == kept.read_bytes() != known
    assert not caplog.records
    spoil(kept.parent)
    user_secret.cache_clear()
    assert user_secret() == b""
    assert "another user could occupy" in caplog.text
    for given in (None, b""):  # with an empty key everybody could join
        with pytest.raises(RendezvousError, match="node a has no secret for job j"):
            secret_of_job("localhost", "node a", "job j", given)
