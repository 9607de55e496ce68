"""Files for users: whole or not at all, and never over those of others."""

import codecs
import errno
import json
import os
import re
import socket
import stat
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from collalgo.bench.cli import main as bench
from collalgo.bench.cluster.race import main as race
from collalgo.bench.cluster.report import main as report
from collalgo.bench.heap import main as heap
from collalgo.bench.records import keep
from collalgo.bench.tune import tune

import collalgo
from collalgo import OutputError, Topology
from collalgo.base import plotting as pictures
from collalgo.base.input_files import read_bytes, read_text
from collalgo.base.output_files import Format, check, write
from collalgo.base.seal import is_unchanged, sealed
from collalgo.cli.main import main
from collalgo.cost.timeline import timeline
from tests.support.paths import ROOT

pytestmark = pytest.mark.parallel

KIND = Format("a note")
THESIS = b"years of work"
COUNTS = (0, 1, 2, 3, 5, 7, 8, 12, 16, 17, 33)


def ours(count):
    return sealed(KIND.mark.encode() + b"x" * count, KIND.name)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


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


# Each command that writes, with a target for the file; none may begin its work.
COMMANDS = {
    "bench json": (bench, ["-R", "2", "--json"], "a.json"),
    "bench csv": (bench, ["-R", "2", "--csv"], "a.csv"),
    "bench plot": (bench, ["-R", "2", "--plot"], "a.svg"),
    "sweep": (bench, ["sweep", "-R", "2", "--json"], "a.json"),
    "tune": (tune, [], "rules.yaml"),
    "heap": (heap, ["--json"], "a.json"),
    "race": (race, [], "a.json"),
    "race over gloo": (race, ["new.json", "--gloo"], "meeting"),
    "report": (report, ["{json}", "-o"], "a.png"),
    "show": (main, ["algorithms", "show", "ring", "-c", "allgather", "--svg"], "a.svg"),
    "export": (
        main,
        ["algorithms", "export", "ring", "-c", "allgather", "-o"],
        "a.xml",
    ),
    "detect": (main, ["topo", "detect", "-o"], "a.yaml"),
    "convert": (main, ["topo", "convert", "dgx1v", "-o"], "a.json"),
    "draw": (main, ["topo", "draw", "dgx1v", "-o"], "a.svg"),
    "timeline": (
        main,
        ["simulate", "allreduce", "ring", "dgx1v", "--timeline"],
        "a.json",
    ),
    "picture": (
        main,
        ["simulate", "allreduce", "ring", "dgx1v", "--timeline"],
        "a.png",
    ),
    "prices": (main, ["select", "allreduce", "8", "-n", "2", "--plot"], "a.pdf"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_over_a_file_of_the_user(name, tmp_path, monkeypatch):
    def worked(*_, **__):
        raise AssertionError("the work has begun")

    for what in ("spawn", "init", "threads"):
        monkeypatch.setattr(collalgo, what, worked)
    command, arguments, file = COMMANDS[name]
    path = tmp_path / file
    contents = (THESIS, b'{"traceEvents": []}', b"<svg/>", b"[]", b"collalgo: 1")
    for content in contents:
        path.write_bytes(content)
        words = [word.format(json=__file__) for word in arguments]
        done = CliRunner().invoke(command, [*words, str(path)])
        assert done.exit_code in (1, 2), done.output
        assert f"{path} exists" in done.output, done.exception
        assert done.output.count("Error: ") == 1
        assert path.read_bytes() == content
    assert names(tmp_path) == [file]


QUICK = [name for name in COMMANDS if COMMANDS[name][0] is main and name != "prices"]


@pytest.mark.parametrize("name", QUICK)
def test_commands_write_over_their_own_files_and_others_by_force(name, tmp_path):
    command, arguments, file = COMMANDS[name]
    path = tmp_path / file
    for force in ([], [], ["--force"]):
        if force:
            path.write_bytes(THESIS)
        done = CliRunner().invoke(command, [*arguments, str(path), *force])
        assert done.exit_code == 0, done.output
        assert len(path.read_bytes()) > 100
    assert names(tmp_path) == [file]


@pytest.mark.parametrize("name", ["export", "convert", "detect"])
def test_commands_write_to_standard_output_and_nothing_else_there(name, tmp_path):
    command, arguments, _ = COMMANDS[name]
    assert CliRunner().invoke(command, [*arguments, "-"]).output[:5] in (
        "<algo",
        "colla",
    )
    assert not Path("-").exists()


def test_results_go_to_standard_output_and_tables_elsewhere():
    options = ["allreduce", "-R", "2", "-e", "8", "-n", "3", "-N", "1", "--json", "-"]
    done = subprocess.run(
        [sys.executable, "-m", "collalgo", "bench", *options],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["results"]
    assert "wrong elements: 0 OK" in done.stderr


#: Two edits of a file: a value, and something at its end.
EDITS = {
    "a digit": lambda data: re.sub(rb"[1-8](?![0-9a-f]{8})", b"9", data, count=1),
    "the end": lambda data: data + b"\n",
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("name", QUICK)
def test_what_was_changed_by_hand_stays_unless_by_force(name, edit, tmp_path):
    command, arguments, file = COMMANDS[name]
    path = tmp_path / file
    assert CliRunner().invoke(command, [*arguments, str(path)]).exit_code == 0
    edited = EDITS[edit](path.read_bytes())
    path.write_bytes(edited)
    done = CliRunner().invoke(command, [*arguments, str(path)])
    assert done.exit_code == 1
    assert "exists and was changed since collalgo wrote it" in done.output
    assert path.read_bytes() == edited
    done = CliRunner().invoke(command, [*arguments, str(path), "--force"])
    assert done.exit_code == 0, done.output
    assert path.read_bytes() != edited


@pytest.mark.parametrize("head", [b"", b"\0\xff", b"made by collalgo ", b"a note "])
def test_any_other_byte_breaks_the_seal(head):
    whole = sealed(head + KIND.mark.encode() + b"1234567", KIND.name)
    assert is_unchanged(whole, KIND.name)
    assert sealed(whole, KIND.name) == whole
    assert not is_unchanged(whole, "a picture")
    for place in range(len(whole)):
        other = bytes([whole[place] ^ 1])
        assert not is_unchanged(whole[:place] + other + whole[place + 1 :], KIND.name)
    for changed in (whole[:-1], whole + b"\n", b"\n" + whole, b"", KIND.mark.encode()):
        assert not is_unchanged(changed, KIND.name)


def test_results_of_benchmarks_are_known_again(tmp_path):
    for found in ({"ranks": 2}, [{"ranks": 2}, {"ranks": 3}]):
        path = tmp_path / f"{len(found)}.json"
        for _ in range(2):
            keep(path, found)
        rows = json.loads(path.read_text())
        assert [*rows][-1:] == [*found][-1:]
        path.write_text(path.read_text().replace("2", "4"))
        with pytest.raises(click.ClickException, match="was changed since"):
            keep(path, found)


@pytest.mark.parametrize("ending", ["png", "svg", "pdf", "eps", "PNG", ""])
def test_pictures_are_known_again(ending, tmp_path):
    figure = pictures.new_figure(2, 2)
    path = tmp_path / (f"a.{ending}" if ending else "a")
    for _ in range(2):
        pictures.save(figure, path)
    assert names(tmp_path) == [path.name]
    with pytest.raises(ValueError, match="unknown picture format 'foo'"):
        pictures.check(tmp_path / "a.foo")
    other = tmp_path / f"b.{ending or 'png'}"
    figure.savefig(other)
    with pytest.raises(OutputError, match="is not a picture"):
        pictures.save(figure, other)


def test_a_trace_of_another_tool_is_refused_on_every_rank_before_the_block(tmp_path):
    path = tmp_path / "profile.json"
    path.write_text('{"traceEvents": []}')

    def on_each_rank(comm):
        with (
            pytest.raises(OutputError, match=r"profile\.json exists"),
            collalgo.trace(path, comm),
        ):
            raise AssertionError("the block has begun")
        comm.barrier()
        with collalgo.trace(path, comm, force=True):
            comm.barrier()
        with collalgo.trace(path, comm):
            comm.barrier()

    for size in (1, 2, 3, 5):
        path.write_text('{"traceEvents": []}')
        collalgo.threads(on_each_rank, size, timeout=60)
        assert len(json.loads(path.read_text())["traceEvents"]) > size
    with pytest.raises(OutputError, match="is not a trace"):
        found = timeline("ring", Topology.load("dgx1v"), 64, collective="allgather")
        (tmp_path / "other.json").write_text("[1]")
        found.write(tmp_path / "other.json")


def test_a_dump_and_the_figures_of_the_machine_spare_files_of_others(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("RANK", "3")
    path = collalgo.dump(tmp_path)
    assert collalgo.dump(tmp_path) == path
    path.write_bytes(THESIS)
    with pytest.raises(OutputError, match="is not a dump"):
        collalgo.dump(tmp_path)
    assert path.read_bytes() == THESIS
    assert names(tmp_path) == [path.name]


def test_no_file_is_written_otherwise():
    """All writing goes through one module, but for what is named here."""
    known = {
        "collalgo/base/output_files.py",
        "collalgo/base/disk_cache.py",  # under names that are digests
        "collalgo/bootstrap/folder.py",  # values in a private folder
        "collalgo/bootstrap/user_secret.py",  # in a private folder
        "collalgo/launch/log_files.py",  # logs, which are appended to
        "bench/cluster/running.py",  # in a temporary folder
        "bench/peers/contest.py",  # in a temporary folder
        "bench/recovery.py",  # in a temporary folder
    }
    words = ("write_text(", "write_bytes(", ".savefig(p", 'open("w', 'open("a',
             "rmtree", 'File("w', "os.replace", "os.rename")  # fmt: skip
    root = ROOT
    found = {
        str(path.relative_to(root))
        for folder in ("collalgo", "bench", "docs", "examples")
        for path in (root / folder).rglob("*.py*")
        if path.suffix in (".py", ".pyx") and any(w in path.read_text() for w in words)
    }
    assert found <= known


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
