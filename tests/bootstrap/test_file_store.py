"""The store in a folder: killed and paused processes, damage, and a log that is large.

``test_key_value_store.py`` and ``test_store_leases.py`` hold it to the protocol.
"""

import os
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from collalgo.bootstrap.store import file, file_log, heartbeats
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.store.file_log import HEAD
from collalgo.bootstrap.store.file_record import FRAME, RECORD, Kind, Record
from collalgo.bootstrap.store.protocol import ABSENT, LeaseExpired, StoreError
from collalgo.errors import BootstrapError
from tests.bootstrap.conftest import log_of
from tests.support.store_clients import Seen, until

HOLDER = """
import sys, time
from pathlib import Path
from collalgo.bootstrap.store.file import FileStore

store = FileStore(Path(sys.argv[1]))
store.set("held", b"x", lease=store.lease(float(sys.argv[2])))
for number in range(10**9):
    store.set("busy", b"%d" % number)
"""


@pytest.fixture
def holder(tmp_path):
    """Start a process that holds a lease, and changes keys all the time."""
    made = []

    def start(seconds):
        words = [sys.executable, "-c", HOLDER, tmp_path / "store", str(seconds)]
        made.append(subprocess.Popen(words))
        return made[-1]

    yield start
    for each in made:
        each.kill()
        each.wait()


def test_a_killed_process_loses_its_lease_at_once_and_blocks_nobody(opened, holder):
    one, process = opened(), holder(1000)
    assert one.get("held") == b"x"
    process.kill()
    until(lambda: one.read("held") is None)
    assert one.set("more", b"1") > 0


def pause(process, log, monkeypatch):
    """Pause a process, but not while it holds the lock of the folder."""
    with monkeypatch.context() as patch:
        patch.setattr(file_log, "ANSWER_SECONDS", 0.2)
        while True:
            process.send_signal(signal.SIGSTOP)
            try:
                with log.locked():
                    return
            except StoreError:
                process.send_signal(signal.SIGCONT)


def test_a_paused_process_loses_its_lease_and_is_fenced(opened, holder, monkeypatch):
    one, process = opened(), holder(0.5)
    one.get("held")
    pause(process, one._log, monkeypatch)
    until(lambda: one.read("held") is None)
    before = one.read("busy").version
    process.send_signal(signal.SIGCONT)
    until(lambda: one.read("busy").version > before)  # it goes on, without the lease
    assert one.read("held") is None


def test_who_was_paused_does_not_take_others_for_dead(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(heartbeats.time, "monotonic", lambda: now[0])
    mine, other = heartbeats.Heartbeats(tmp_path), heartbeats.Heartbeats(tmp_path)
    other.begin(7)
    assert mine.ended({7: 2.0}) == []
    for step, ended in (
        (0.9, []),
        (0.9, []),
        (50.0, []),
        (0.9, []),
        (0.9, []),
        (0.6, [7]),
    ):
        now[0] += step
        assert mine.ended({7: 2.0}) == ended, now
    other.beat(7)
    assert mine.ended({7: 2.0}) == []
    other.end(7)


@pytest.mark.parametrize("kept", [0, 1, FRAME.size - 1, FRAME.size, FRAME.size + 5, -1])
def test_what_a_killed_process_has_left_unfinished_is_cut_off(opened, tmp_path, kept):
    one, other, seen = opened(), opened(), Seen()
    other.watch("", seen)
    one.set("a", b"1")
    whole = Record(Kind.PUT, 2, key="b", value=b"lost").encode()
    with log_of(tmp_path).open("ab") as log:
        log.write(whole[:kept])
    assert other.read("b") is None
    assert other.set("c", b"2") == 2
    assert list(one.entries("")) == list(opened().entries("")) == ["a", "c"]
    until(lambda: seen.pairs() == [("a", b"1"), ("c", b"2")])


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(FRAME.size + RECORD.size, id="key"),
        pytest.param(2, id="length beyond the end"),
        pytest.param(3, id="length beyond the most"),
    ],
)
@pytest.mark.parametrize("number", [0, 2])
def test_a_damaged_log_is_refused_not_cut_off(opened, tmp_path, at, number):
    one = opened()
    for value in range(5):
        one.set("k", b"%d" % value)
    content = bytearray(log_of(tmp_path).read_bytes())
    begin = HEAD.size + number * (len(content) - HEAD.size) // 5
    content[begin + at] ^= 0x40
    log_of(tmp_path).write_bytes(content)
    damage = rf"log is damaged at byte {begin} of {len(content)}; remove"
    with pytest.raises(StoreError, match=damage):
        opened()
    assert log_of(tmp_path).read_bytes() == content


def test_damage_to_what_is_new_is_refused_by_whoever_reads(opened, tmp_path, caplog):
    one = opened()
    one.set("a", b"1")
    records = [Record(Kind.PUT, version, key="k").encode() for version in (2, 3)]
    with log_of(tmp_path).open("ab") as log:
        log.write(records[0][:-1] + b"x" + records[1])
    for _ in range(2):
        with pytest.raises(StoreError, match=r"log is damaged at byte \d+ of"):
            one.read("a")
    until(lambda: "log is damaged at byte" in caplog.text)
    one.close()
    assert caplog.text.count("log is damaged at byte") == 1


@pytest.mark.parametrize("at", [8, 16, HEAD.size - 1])
def test_a_damaged_start_of_the_log_is_refused_also_by_who_has_read_it(
    opened, tmp_path, at
):
    one = opened()
    one.set("a", b"1")
    content = bytearray(log_of(tmp_path).read_bytes())
    content[at] ^= 1
    log_of(tmp_path).write_bytes(content)
    for use in (opened, lambda: one.read("a")):
        with pytest.raises(StoreError, match="log is damaged in its first 28 bytes"):
            use()
    log_of(tmp_path).write_bytes(b"something else that is long enough")
    with pytest.raises(StoreError, match="is not the log of a store"):
        opened()


def test_a_large_log_is_written_anew_and_nobody_notices(opened, tmp_path, monkeypatch):
    monkeypatch.setattr(file, "COMPACTED", 4096)
    one, other, seen = opened(), opened(), Seen()
    other.watch("", seen)
    first = one.set("kept", b"k")
    for number in range(300):
        last = one.set("k", b"%d" % number * 10)
    assert log_of(tmp_path).stat().st_size < 3 * 4096
    assert other.read("kept").version == first
    assert other.read("k").version == last
    assert opened().entries("") == one.entries("")
    until(lambda: seen.changes[-1].version == last)
    versions = [change.version for change in seen.changes]
    assert all(a <= b for a, b in pairwise(versions))
    assert one.set("k", b"") == last + 1


def test_a_log_that_is_written_anew_keeps_its_leases(opened, monkeypatch):
    monkeypatch.setattr(file, "COMPACTED", 0)
    one, other = opened(), opened()
    lease = one.lease(1000)
    one.set("leased", b"l", lease=lease)
    one.set("gone", b"")
    one.delete("gone")
    assert list(other.entries("")) == list(opened().entries("")) == ["leased"]
    lease.revoke()
    assert other.read("leased") is None
    with pytest.raises(LeaseExpired):
        one.compare_set("leased", b"", ABSENT, lease=lease)


def test_a_folder_that_others_may_write_to_is_refused(tmp_path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(BootstrapError, match="no other user may write to it"):
        FileStore(tmp_path / "open")
    (tmp_path / "file").touch()
    with pytest.raises(BootstrapError, match="which is a file"):
        FileStore(tmp_path / "file")
    with pytest.raises(StoreError, match="cannot be used"):
        FileStore(tmp_path / "file" / "below")
    made = FileStore(tmp_path / "new")
    made.close()
    modes = {each.name: each.stat().st_mode & 0o77 for each in made._folder.iterdir()}
    assert modes == {"log": 0, "lock": 0}
    assert made._folder.stat().st_mode & 0o77 == 0


def test_a_store_that_is_closed_leaves_no_descriptor_and_no_lease(opened, tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        store = opened()
        store.set("a", b"", lease=store.lease(10))
        store.close()
    assert len(os.listdir("/proc/self/fd")) == before
    assert opened().read("a") is None
    assert sorted(os.listdir(tmp_path / "store")) == ["lock", "log"]
