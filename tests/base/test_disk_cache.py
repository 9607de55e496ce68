"""What is kept on disk is given back whole, or not at all."""

import multiprocessing
import os
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from collalgo.base import disk_cache
from collalgo.base.disk_cache import folder, keep, recall


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "cache"))


def files(kind="kind"):
    return sorted((folder() / kind).iterdir())


def test_what_is_kept_is_recalled_by_its_key_and_kind():
    for text in ("", "one\nline", "\u00e4" * 1000):
        keep("kind", "key", text)
        assert recall("kind", "key") == text
        assert recall("kind", "other") is recall("other", "key") is None
    assert len(files()) == 1


def test_every_damage_counts_as_missing():
    keep("kind", "key", "some text")
    (path,) = files()
    whole = path.read_bytes()
    damages = [whole[:n] for n in range(len(whole))]
    damages += [
        whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :] for n in range(len(whole))
    ]
    damages += [whole + b"\n", b"\n" + whole, bytes(disk_cache.LARGEST + 2)]
    for damage in damages:
        path.write_bytes(damage)
        assert recall("kind", "key") is None
    keep("kind", "key", "some text")
    assert path.read_bytes() == whole


def test_the_file_of_another_key_counts_as_missing():
    keep("kind", "key", "text")
    keep("kind", "other", "text")
    one, other = files()
    one.write_bytes(other.read_bytes())
    assert sorted([str(recall("kind", "key")), str(recall("kind", "other"))]) == [
        "None",
        "text",
    ]


def test_what_is_too_large_is_not_kept():
    keep("kind", "key", "x" * disk_cache.LARGEST)
    assert not folder().exists()


def test_it_is_moved_and_switched_off_by_the_environment(tmp_path, monkeypatch):
    keep("kind", "key", "text")
    monkeypatch.setenv("COLLALGO_CACHE", "off")
    assert recall("kind", "key") is None
    monkeypatch.delenv("COLLALGO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert folder() == tmp_path / "collalgo"
    assert recall("kind", "key") is None
    monkeypatch.setenv("COLLALGO_CACHE", "off")
    keep("kind", "key", "text")
    assert not folder().exists()


def test_a_folder_that_cannot_be_used_keeps_nothing(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", "/proc/none", tmp_path / ("x" * 300)):
        monkeypatch.setenv("COLLALGO_CACHE", str(place))
        keep("kind", "key", "text")
        assert recall("kind", "key") is None


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_folder_that_cannot_be_used_is_reported_once_by_one_rank(
    tmp_path, monkeypatch, caplog, place
):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / place))
    monkeypatch.setattr(disk_cache, "_report", disk_cache._Report())
    keep("a kind", "a key", "a value")
    assert not caplog.messages  # not by every rank
    disk_cache.report_problems()
    keep("a kind", "another key", "a value")
    (message,) = caplog.messages
    assert message.startswith(
        f"COLLALGO_CACHE={tmp_path / place}: results are not kept"
    )
    assert "name a folder that can be written, or off" in message


def test_a_folder_in_place_of_a_file_counts_as_missing():
    keep("kind", "key", "text")
    (path,) = files()
    path.unlink()
    path.mkdir()
    keep("kind", "key", "text")
    assert recall("kind", "key") is None
    assert files() == [path]


def test_the_oldest_files_make_room(monkeypatch):
    monkeypatch.setattr(disk_cache, "MOST_FILES", 8)
    for number in range(8):
        keep("kind", str(number), "text")
        for path in files():  # as if they were written a second apart
            os.utime(path, ns=(0, path.stat().st_mtime_ns - 10**9))
    keep("kind", "8", "text")
    left = [recall("kind", str(number)) for number in range(9)]
    assert left == [None] * 3 + ["text"] * 6


def _keep_and_recall(number):
    wrong = 0
    for i in range(100):
        keep("kind", str(i % 7), f"text {i % 7} " * (1 + number))
        found = recall("kind", str(i % 7))
        wrong += found is None or not found.startswith(f"text {i % 7} ")
    return wrong


def test_processes_that_share_the_folder_see_whole_files():
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert pool.map(_keep_and_recall, range(4)) == [0] * 4
    assert len(files()) == 7


@pytest.mark.parametrize(
    "make", [os.mkfifo, os.mkdir, lambda p: p.symlink_to("/etc/passwd")]
)
def test_what_is_no_file_of_the_user_counts_as_missing_and_is_not_waited_for(
    make, tmp_path, monkeypatch
):
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path))
    keep("kind", "key", "content")
    (path,) = (tmp_path / "kind").iterdir()
    path.unlink()
    make(path)
    assert recall("kind", "key") is None


def test_of_those_that_need_a_result_one_computes_it():
    computed, barrier = [], Barrier(4)

    def need(number):
        barrier.wait(9)
        with disk_cache.turn("turns", "key"):
            if recall("turns", "key") is None:
                computed.append(number)
                time.sleep(0.05)  # in which the others arrive
                keep("turns", "key", "result")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(need, range(4)))
    assert len(computed) == 1
    assert len(list((folder() / "turns").iterdir())) == 1  # no lock is left


def test_a_turn_is_not_waited_for_long(monkeypatch):
    monkeypatch.setattr(disk_cache, "TURN_SECONDS", 0.02)
    with disk_cache.turn("turns", "key"), disk_cache.turn("turns", "key"):
        keep("turns", "key", "result")
    assert recall("turns", "key") == "result"


def test_without_a_folder_there_are_no_turns(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("COLLALGO_CACHE", str(tmp_path / "file"))
    with disk_cache.turn("turns", "key"):
        assert recall("turns", "key") is None
