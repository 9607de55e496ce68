"""Faults around a store in a folder: what is cut off, forks, lack of descriptors."""

import errno
import os
import subprocess
import time
import zlib
from pathlib import Path
from threading import Thread

import pytest

from collalgo.bootstrap.store import file, file_locks, heartbeats
from collalgo.bootstrap.store.file_log import HEAD, _encoded_head
from collalgo.bootstrap.store.file_record import FRAME, RECORD
from collalgo.bootstrap.store.protocol import StoreError
from tests.bootstrap.conftest import log_of


def test_zeros_at_the_end_are_not_whole_yet(opened, tmp_path):
    one, other = opened(), opened()
    one.set("a", b"1")
    with log_of(tmp_path).open("ab") as log:
        log.write(bytes(100))
    assert other.read("a").value == b"1"
    assert other.set("b", b"2") == 2
    with log_of(tmp_path).open("ab") as log:
        log.write(bytes(100) + b"more")
    with pytest.raises(StoreError, match="is damaged at byte"):
        other.set("c", b"3")


def test_a_log_that_cannot_be_read_whole_is_read_again(opened, tmp_path):
    one, other = opened(), opened()
    one.set("a", b"1")
    content = log_of(tmp_path).read_bytes()
    log_of(tmp_path).write_bytes(content[: HEAD.size - 1])
    with pytest.raises(StoreError, match="is not the log of a store"):
        other.read("a")
    body = b"\xff" * RECORD.size
    bad = FRAME.pack(len(body), zlib.crc32(body)) + body
    generation = _encoded_head(bytes(8), 0) + content[HEAD.size :]
    log_of(tmp_path).write_bytes(generation + bad)
    with pytest.raises(StoreError, match="is damaged"):
        other.read("a")
    log_of(tmp_path).write_bytes(generation)
    assert other.read("a").value == b"1"
    assert one._thread.is_alive()
    assert other._thread.is_alive()


def test_leases_of_others_that_cannot_be_observed_do_not_end(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: now[0])
    mine, other = heartbeats.Heartbeats(tmp_path), heartbeats.Heartbeats(tmp_path)
    other.begin(7)

    def refuse(*_, **__):
        raise OSError(errno.EMFILE, "planted")

    with monkeypatch.context() as patch:
        patch.setattr(heartbeats.os, "open", refuse)
        patch.setattr(heartbeats.Path, "read_bytes", refuse)
        for _ in range(5):
            now[0] += 0.9
            assert mine.ended({7: 2.0}) == []
    other.end(7)


def test_a_forked_child_does_not_keep_the_lock(opened):
    one = opened()
    with one._log.locked():
        child = subprocess.Popen(["sleep", "100"], pass_fds=locks_of(one))
    try:
        assert one.set("a", b"1") == 1
    finally:
        child.kill()
        child.wait()


def locks_of(store):
    """The descriptors with which this process has locked the folder."""
    path, fds = store._folder / "lock", Path("/proc/self/fd")
    found = [int(each.name) for each in fds.iterdir() if links_to(each, path)]
    assert found
    return found


def links_to(link, path):
    return link.is_symlink() and link.readlink() == path


def test_a_lease_is_renewed_while_its_holder_waits_for_the_log(opened, tmp_path):
    one, other = opened(), opened()
    lease = one.lease(0.6)
    one.set("held", b"", lease=lease)
    with other._log.locked():
        waiting = Thread(target=one.set, args=("a", b"1"))
        waiting.start()
        time.sleep(1.5)
        assert lease.remaining() > 0
    waiting.join()
    assert other.read("held") is not None


def test_leases_that_fail_or_have_ended_leave_nothing(opened, tmp_path, monkeypatch):
    one = opened()
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*_):
        raise OSError(errno.ENOSPC, "planted")

    with monkeypatch.context() as patch:
        patch.setattr(one._log, "append", refuse)
        with pytest.raises(StoreError, match="planted"):
            one.lease(10)
    assert sorted(os.listdir(tmp_path / "store")) == ["lock", "log"]
    assert len(os.listdir("/proc/self/fd")) == before
    for _ in range(3):
        one.lease(10).revoke()
    assert len(one._leases) == 1


def test_a_log_that_cannot_be_rewritten_takes_changes(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(file, "COMPACTED", 100)
    one = opened()

    def refuse(*_):
        raise OSError(errno.ENOSPC, "planted")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        for number in range(20):
            one.set("k", b"%d" % number)
    assert sorted(os.listdir(tmp_path / "store")) == ["lock", "log"]
    assert opened().read("k").value == b"19"
    before = log_of(tmp_path).stat().st_size
    for number in range(20):
        one.set("k", b"%d" % number)
    assert log_of(tmp_path).stat().st_size < before


MOUNT = "36 35 {device} / /mnt rw,noatime shared:1 - {kind} host:/share {options}\n"


@pytest.mark.parametrize(
    ("kind", "options", "refused"),
    [
        ("nfs4", "rw,vers=4.2,local_lock=none", ""),
        ("nfs", "rw,vers=3,nolock,local_lock=all", "local_lock=all"),
        ("nfs", "rw,vers=3,local_lock=flock", "local_lock=flock"),
        ("nfs", "rw,vers=3,local_lock=posix", ""),
        ("lustre", "rw,localflock", "localflock"),
        ("lustre", "rw,flock", ""),
        ("ext4", "rw,nolock", ""),
    ],
)
def test_a_folder_whose_locks_are_local_is_refused(
    kind, options, refused, opened, tmp_path, monkeypatch
):
    device = tmp_path.stat().st_dev
    here = f"{os.major(device)}:{os.minor(device)}"
    for at, is_refused in ((here, bool(refused)), ("0:0", False)):
        mounts = tmp_path / "mounts"
        mounts.write_text(
            "cut off\n" + MOUNT.format(device=at, kind=kind, options=options)
        )
        monkeypatch.setattr(file_locks, "MOUNTS", mounts)
        if is_refused:
            with pytest.raises(StoreError, match=f"is mounted with {refused}, so its"):
                opened()
        else:
            opened().set("a", b"1")


def test_a_log_that_was_replaced_is_neither_read_nor_changed(opened, tmp_path):
    """A client of NFS may open the former file by its name for a while."""
    one, other = opened(), opened()
    one.set("a", b"1")
    former = tmp_path / "former"
    os.link(log_of(tmp_path), former)
    with one._log.locked():
        one._log.compact(one._data.version, one._data.records())
    content = former.read_bytes()
    path, other._log._path = other._log._path, former
    for change in (lambda: other.read("a"), lambda: other.set("a", b"2")):
        with pytest.raises(StoreError, match="has just been replaced; try again"):
            change()
    assert former.read_bytes() == content
    other._log._path = path
    other.set("a", b"2")
    assert one.read("a").value == b"2"


def test_a_log_that_is_replaced_between_opening_and_reading_is_opened_again(
    opened, tmp_path, monkeypatch
):
    one, other = opened(), opened()
    one.set("a", b"1")
    real, opens = Path.open, []

    def opened_before(path, mode="r", **more):
        file = real(path, mode, **more)
        if path == log_of(tmp_path) and mode == "rb" and not opens:
            opens.append(path)
            one._log.compact(one._data.version, one._data.records())
        return file

    monkeypatch.setattr(Path, "open", opened_before)
    assert other.read("a").value == b"1"
    assert opens


def test_a_log_of_another_version_is_named_and_not_changed(opened, tmp_path):
    opened().set("a", b"1")
    log = log_of(tmp_path)
    log.write_bytes(before := b"CLGLOG01" + log.read_bytes()[8:])
    with pytest.raises(StoreError, match="is of another version of collalgo"):
        opened().set("a", b"2")
    assert log.read_bytes() == before
