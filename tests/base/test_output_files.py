"""Files for users: whole or not at all, and never over those of others."""

import codecs
import errno
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from collalgo import OutputError
from collalgo.base.input_files import read_bytes, read_text
from collalgo.base.output_files import check, write
from collalgo.base.seal import sealed
from tests.support.foreign_files import KIND, THESIS, names
from tests.support.paths import ROOT

COUNTS = (0, 1, 2, 3, 5, 7, 8, 12, 16, 17, 33)


def ours(count):
    return sealed(KIND.mark.encode() + b"x" * count, KIND.name)


@pytest.mark.parametrize("count", COUNTS)
def test_what_was_written_may_be_written_again_and_leaves_nothing_else(count, tmp_path):
    path = tmp_path / "note"
    for more in (0, 40_000, 1):
        write(path, ours(count + more), KIND)
        assert path.read_bytes() == ours(count + more)
        assert names(tmp_path) == ["note"]


@pytest.mark.parametrize("count", COUNTS[1:])
def test_what_others_have_written_stays_unless_by_force(count, tmp_path):
    path = tmp_path / "note"
    path.write_bytes(b"y" * count)
    for refuse in (lambda: check(path, KIND), lambda: write(path, ours(1), KIND)):
        with pytest.raises(OutputError, match=rf"exists .* \({count} bytes\).*--force"):
            refuse()
    assert path.read_bytes() == b"y" * count
    write(path, ours(1), KIND, force=True)
    assert path.read_bytes() == ours(1)


def test_an_empty_file_may_be_written_over_and_keeps_its_mode(tmp_path):
    path = tmp_path / "note"
    path.touch(mode=0o640)
    write(path, ours(1), KIND)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    umask = os.umask(0o027)
    try:
        write(tmp_path / "new", ours(1), KIND)
    finally:
        os.umask(umask)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640


def test_a_file_that_may_not_be_written_stays(tmp_path):
    path = tmp_path / "note"
    path.write_bytes(ours(1))
    path.chmod(0o444)
    with pytest.raises(OutputError, match=r"is not writable \(mode 444\)"):
        write(path, ours(2), KIND)
    assert path.read_bytes() == ours(1)


@pytest.mark.parametrize("failing", ["fsync", "replace", "interrupt"])
def test_a_full_disk_and_an_interrupt_leave_what_was_there(
    failing, tmp_path, monkeypatch
):
    def fail(*_):
        if failing == "interrupt":
            raise KeyboardInterrupt
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "note"
    write(path, ours(1), KIND)
    where = (Path, "replace") if failing == "replace" else (os, "fsync")
    monkeypatch.setattr(*where, fail)
    wanted = KeyboardInterrupt if failing == "interrupt" else OutputError
    with pytest.raises(wanted, match=r"^$|No space left"):
        write(path, ours(2), KIND)
    assert path.read_bytes() == ours(1)
    assert names(tmp_path) == ["note"]


def test_links_stay_and_their_files_are_looked_at(tmp_path):
    real, link, second = (tmp_path / name for name in ("real", "link", "second"))
    link.symlink_to("real")  # which is not there yet
    second.symlink_to(link)
    for _ in range(2):
        write(second, ours(1), KIND)
        assert real.read_bytes() == ours(1)
        assert link.is_symlink()
        assert second.is_symlink()
    real.write_bytes(THESIS)
    with pytest.raises(OutputError, match="exists and is not a note"):
        write(second, ours(1), KIND)
    assert real.read_bytes() == THESIS
    link.unlink()
    link.symlink_to("second")
    with pytest.raises(OutputError, match="cannot write"):
        write(second, ours(1), KIND)


def test_folders_and_what_is_not_there_are_refused(tmp_path):
    with pytest.raises(OutputError, match="is a folder; name a file in it"):
        check(tmp_path, KIND, force=True)
    with pytest.raises(OutputError, match="there is no folder"):
        check(tmp_path / "a" / "note", KIND)
    (tmp_path / "file").write_bytes(THESIS)
    with pytest.raises(OutputError, match="there is no folder"):
        check(tmp_path / "file" / "note", KIND)
    with pytest.raises(OutputError, match="cannot write"):
        check(tmp_path / ("x" * 300), KIND)


@pytest.mark.parametrize("name", ["a.md", "a.MD", "a", ".a", "a.b.md", "a.txt"])
def test_a_suffix_of_the_format_or_none_is_taken(name, tmp_path):
    for kind in (KIND, KIND._replace(endings=("md", "txt"))):
        write(tmp_path / name, ours(1), kind)


@pytest.mark.parametrize("name", ["a.png", "a.md.gz", "a.mdx"])
def test_a_suffix_of_another_format_is_refused_before_the_work(name, tmp_path):
    kind = KIND._replace(endings=("md", "txt"))
    for force in (False, True):
        with pytest.raises(OutputError, match=r"the suffix .* with \.md or \.txt"):
            check(tmp_path / name, kind, force=force)
    assert not names(tmp_path)
    check("/dev/null", kind)


@pytest.fixture
def special(tmp_path):
    """A path of each kind that is no regular file."""
    pipe, socket_ = tmp_path / "pipe", tmp_path / "socket"
    os.mkfifo(pipe)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(socket_))
        yield {
            "a named pipe": pipe,
            "a socket": socket_,
            "a device": Path("/dev/zero"),
            "a folder": tmp_path,
        }


@pytest.mark.parametrize("kind", ["a named pipe", "a socket", "a device", "a folder"])
def test_what_is_no_file_is_refused_at_once_by_writers_and_readers(kind, special):
    path = special[kind]
    before = path.stat().st_mode
    for force in (False, True):
        with pytest.raises(OutputError, match=f"is {kind}; name a file"):
            write(path, ours(1), KIND, force=force)
    with pytest.raises(ValueError, match=f"it is {kind}; name a file"):
        read_bytes(path, 10)
    assert path.stat().st_mode == before


def test_open_streams_are_written_and_read(tmp_path):
    reading, writing = os.pipe()
    try:
        write(f"/dev/fd/{writing}", ours(70), KIND)
        os.close(writing)
        assert read_bytes(f"/dev/fd/{reading}", 1000) == ours(70)
        with pytest.raises(OutputError, match="is not an open stream"):
            check("/dev/fd/100000", KIND)
    finally:
        os.close(reading)
    write("/dev/null", ours(1), KIND)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_files_are_read_up_to_a_size(tmp_path):
    path = tmp_path / "file"
    for count in COUNTS:
        path.write_bytes(b"x" * count)
        assert read_bytes(path, count) == b"x" * count
        path.write_bytes(b"x" * (count + 1))
        with pytest.raises(ValueError, match=f"it has more than {count} bytes"):
            read_bytes(path, count)
    path.write_bytes(b"ab\xff")
    with pytest.raises(ValueError, match="byte 2 is not UTF-8"):
        read_text(path, 10)
    for name in ("none", "x" * 300):
        with pytest.raises(ValueError, match="it cannot be read: "):
            read_bytes(tmp_path / name, 10)


@pytest.mark.parametrize("target", ["-", "/dev/stdout", "/dev/fd/1", "link"])
@pytest.mark.parametrize("into", ["pipe", "file"])
def test_standard_output_is_appended_to(target, into, tmp_path):
    if target == "link":
        target = str(tmp_path / "link")
        Path(target).symlink_to("/dev/stdout")
    script = (
        "import os, sys\nfrom collalgo.base.output_files import *\n"
        "print('before', flush=True)\n"
        f"write({target!r}, 'note', Format('a note'))\n"
        "os.write(1, b' after')\n"
    )
    command = [sys.executable, "-c", script]
    if into == "pipe":
        text = subprocess.run(command, capture_output=True, check=True).stdout
    else:
        file = tmp_path / "out"
        file.write_bytes(b"earlier\n")
        with file.open("ab") as out:
            subprocess.run(command, stdout=out, check=True)
        text = file.read_bytes()
    wanted = b"before\nnote after"
    assert text == (b"earlier\n" if into == "file" else b"") + wanted


#: The modules that write files otherwise, and why they may.
WRITERS = {
    "collalgo/base/output_files.py",
    "collalgo/base/disk_cache.py",  # under names that are digests
    "collalgo/bootstrap/folder.py",  # values in a private folder
    "collalgo/bootstrap/store/certificates.py",  # in a private folder
    "collalgo/bootstrap/user_secret.py",  # in a private folder
    "collalgo/bootstrap/store/file_log.py",  # in a private folder
    "collalgo/elastic/recording.py",  # the file that torchrun names
    "collalgo/launch/log_files.py",  # logs, which are appended to
    "examples/elastic_digits.py",  # a picture that the user names
    "bench/cluster/running.py",  # in a temporary folder
    "bench/cluster/star.py",  # the same
    "bench/cluster/replanning.py",  # kept plans in a temporary folder
    "bench/vllm.py",  # in a temporary folder
    "bench/peers/contest.py",  # in a temporary folder
    "bench/recovery.py",  # in a temporary folder
}


def test_no_file_is_written_otherwise():
    """All writing goes through one module, but for what is named above."""
    words = ("write_text(", "write_bytes(", ".savefig(p", '.open("w', '.open("a',
             "rmtree", 'File("w', "os.replace", "os.rename")  # fmt: skip
    root = ROOT
    found = {
        str(path.relative_to(root))
        for folder in ("collalgo", "bench", "docs", "examples")
        for path in (root / folder).rglob("*.py*")
        if path.suffix in (".py", ".pyx") and any(w in path.read_text() for w in words)
    }
    assert found <= WRITERS


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_text_is_read_in_any_encoding_and_with_any_line_ends(
    tmp_path, encoding, ends
):
    path = tmp_path / "file"
    for text in ("", "a\n", "é: 1\nb: ü\n"):
        path.write_bytes(text.replace("\n", ends).encode(encoding))
        assert read_text(path, 1000) == text
    path.write_bytes(codecs.BOM_UTF16_LE + b"abc")
    with pytest.raises(ValueError, match="byte 4 is not UTF-16"):
        read_text(path, 1000)
