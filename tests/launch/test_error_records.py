"""The launcher shows the error that a rank has recorded, whatever else it prints."""

import json
import os
import subprocess
import sys
import tracemalloc

import pytest

from collalgo import elastic
from collalgo.base.environment import ERRORS
from collalgo.launch.error_records import ErrorRecords, record_error

pytestmark = pytest.mark.deadline

NOISY = """
import sys
from collalgo import elastic

@elastic.record
def main():
    raise OSError("the disk is full")

try:
    main()
except OSError:
    for number in range(5000):
        print("noise", number, file=sys.stderr)
    sys.exit(3)
"""


def run(folder, options, program):
    """The end of a job of a program."""
    script = folder / "script.py"
    script.write_text(program)
    return subprocess.run(
        [sys.executable, "-m", "collalgo", "run", *options.split(), script],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("options", ["-n 2", "-n 1 --min 1 --max-restarts 0"])
def test_a_recorded_error_is_shown_after_any_noise(tmp_path, options):
    done = run(tmp_path, options, NOISY)
    assert done.returncode == 3
    assert done.stderr.endswith("\n  OSError: the disk is full\n"), done.stderr[-500:]
    assert "script.py" in done.stderr.splitlines()[-3]


HANDLED = """
import logging, os, sys
try:
    raise KeyError('handled')
except KeyError:
    logging.exception('goes on')
"""


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.kill(os.getpid(), 9)", "was killed by SIGKILL"),
        ("sys.exit('no data')", "ended with exit code 1"),
        ("os._exit(3)", "ended with exit code 3"),
    ],
)
def test_a_handled_error_is_not_taken_for_the_failure(tmp_path, end, reason):
    done = run(tmp_path, "-n 1", HANDLED + end)
    assert f"rank 0 {reason}\n" in done.stderr


@pytest.fixture
def recording(monkeypatch):
    """A function that fails as it is told, and the records of its launcher."""
    records = ErrorRecords()
    key, variables = records.next()
    monkeypatch.setenv(ERRORS.name, variables[ERRORS.name])

    @elastic.record
    def main(error):
        raise error

    yield main, records, key
    records.close()


def test_the_first_error_counts_and_nothing_else_is_recorded(recording):
    main, records, key = recording
    assert records.traceback(key) == []
    with pytest.raises(SystemExit):
        main(SystemExit(0))
    assert records.traceback(key) == []
    for number in (1, 2):
        with pytest.raises(ValueError, match=f"v{number}"):
            main(ValueError(f"v{number}\nof \u00e9 lines"))
    assert records.traceback(key)[-2:] == ["ValueError: v1", "of \u00e9 lines"]
    other, _ = records.next()
    tracemalloc.start()  # under a memory limit, the most bytes are too many
    assert records.traceback(other) == []
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 20


def test_each_record_is_read_once_and_no_key_comes_back(recording, monkeypatch):
    main, records, key = recording
    with pytest.raises(ValueError, match="v"):
        main(ValueError("v"))
    assert records.traceback(key)
    monkeypatch.setattr(json, "loads", None)
    assert records.traceback(key)
    records.close()
    assert ErrorRecords().next()[0] != key


def test_what_is_malformed_is_ignored_and_what_is_long_is_cut(recording):
    main, records, key = recording
    for line in (b"nonsense\n", b"[" * 9999 + b"\n", b'{"key": 1}\n', b"\xff\n"):
        os.write(records._file, line)
    with pytest.raises(ValueError, match="x"):
        main(ValueError("x" * (1 << 20)))
    (line,) = records.traceback(key)
    assert set(line) == {"x"}
    assert len(line) < 1 << 17


@pytest.mark.parametrize("where", ["", "/no/such/file#1", "nonsense", "{other}#1"])
def test_without_a_launcher_nothing_is_recorded(monkeypatch, tmp_path, where):
    other = tmp_path / "other"
    other.touch()
    monkeypatch.setenv(ERRORS.name, where.format(other=other))
    record_error("text")
    assert other.read_bytes() == b""


def test_torchrun_gets_its_file(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))

    @elastic.record
    def main():
        return 1 / 0

    with pytest.raises(ZeroDivisionError):
        main()
    written = json.loads((tmp_path / "error.json").read_text())["message"]
    assert written["message"] == "ZeroDivisionError: division by zero"
    assert "return 1 / 0" in written["extraInfo"]["py_callstack"]
    assert written["extraInfo"]["timestamp"].isdecimal()
