"""The output of ranks: whole lines, prompts and progress bars at once, and failures."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given, settings, strategies as st

from collalgo.launch.destination import Destination
from collalgo.launch.log_files import PARTIAL_BYTES, LogFiles
from collalgo.launch.output import Stream

pytestmark = pytest.mark.parallel

RUN = (sys.executable, "-m", "collalgo", "run", "-n")

PIECES = st.lists(
    st.sampled_from([b"a", b"word ", b"\n", b"\r", b"\r\n", b"\n\n", b"long" * 99]),
    max_size=12,
)


class Written:
    """A file that is not seen by others, and what was written to it."""

    def __init__(self):
        self.file = os.fdopen(os.memfd_create("written"), "wb")

    def value(self):
        """All that was written."""
        return os.pread(self.file.fileno(), 1 << 20, 0)

    def __del__(self):
        self.file.close()


class Piped:
    """A stream with the other end of its pipe."""

    def __init__(self, destination, prefix, log=None):
        out, self.into = os.pipe()
        self.stream = Stream(os.fdopen(out, "rb", 0), destination, prefix, log)

    def send(self, data):
        """Let the stream forward some data."""
        os.write(self.into, data)
        self.stream.forward()

    def __del__(self):
        self.stream.pipe.close()

    def end(self):
        """Close the pipe, and let the stream forward the rest."""
        os.close(self.into)
        while self.stream.forward():
            pass
        self.stream.pipe.close()


def nowhere():
    """A destination that keeps nothing."""
    return Destination(None, "nothing")


def parts(output):
    """Lines, and the parts of a line that a carriage return ends."""
    return output.replace(b"\r", b"\n").split(b"\n")


def text_of(rank, lines):
    """What a rank has written, without newlines: a busy machine may part a line."""
    prefix = f"[{rank}] ".encode()
    return b"".join(x.removeprefix(prefix) for x in lines if x.startswith(prefix))


@settings(max_examples=200)
@given(pieces=PIECES)
def test_one_rank_gets_all_through_however_it_is_cut(pieces):
    file = Written()
    rank = Piped(Destination(file.file, "a file"), b"")
    for piece in pieces:
        rank.send(piece)
        rank.stream.flush()
    rank.end()
    whole = b"".join(pieces)
    assert file.value() in (whole, whole + b"\n")


@settings(max_examples=200)
@given(turns=st.lists(st.tuples(st.integers(0, 2), PIECES), max_size=8))
def test_lines_of_ranks_never_mix(turns):
    file = Written()
    destination = Destination(file.file, "a file")
    ranks = [Piped(destination, f"[{number}] ".encode()) for number in range(3)]
    written = [b"", b"", b""]
    for number, pieces in turns:
        for piece in pieces:
            ranks[number].send(piece)
            written[number] += piece
    for rank in ranks:
        rank.end()
    output = file.value()
    for line in output.splitlines():
        assert not line or line.startswith((b"[0] ", b"[1] ", b"[2] "))
    for number in range(3):
        lines = [
            line for line in written[number].replace(b"\r", b"\n").split(b"\n") if line
        ]
        prefix = f"[{number}] ".encode()
        found = output.replace(b"\r", b"\n").split(b"\n")
        mine = [line.removeprefix(prefix) for line in found if line.startswith(prefix)]
        assert [line for line in mine if line] == lines


def test_an_unfinished_line_waits_for_its_end_and_is_bounded():
    file = Written()
    rank = Piped(Destination(file.file, "a file"), b"[0] ")
    rank.send(b"name? ")
    assert file.value() == b""
    assert 0 <= rank.stream.seconds_left() < 1
    rank.stream.flush()
    assert file.value() == b"[0] name? "
    rank.send(b"Ada\n")
    assert file.value() == b"[0] name? Ada\n"
    for _ in range(2 + PARTIAL_BYTES // 60_000):
        rank.send(b"x" * 60_000)
    assert len(file.value()) > PARTIAL_BYTES
    rank.end()


def test_another_rank_ends_an_unfinished_line_and_its_own_goes_on():
    file = Written()
    destination = Destination(file.file, "a file")
    first, second = (Piped(destination, f"[{n}] ".encode()) for n in range(2))
    first.send(b"name? ")
    first.stream.flush()
    second.send(b"here\n")
    first.send(b"Ada\n")
    assert file.value() == b"[0] name? \n[1] here\n[0] Ada\n"
    first.end()
    second.end()


def test_the_last_lines_are_kept():
    rank = Piped(nowhere(), b"[0] ")
    for number in range(100):
        rank.send(b"line %d\n" % number)
    assert rank.stream.last_lines[-2:] == [b"line 98", b"line 99"]
    assert len(rank.stream.last_lines) == 60
    rank.end()


def test_a_log_is_what_the_ranks_wrote(tmp_path):
    logs = LogFiles(tmp_path)
    rank = Piped(nowhere(), b"[7] ", logs.of_rank(7, "stdout"))
    rank.send(b"10%\r20%\rdone\nno ")
    rank.send(b"end")
    rank.end()
    assert (tmp_path / "rank.7/stdout").read_bytes() == b"10%\r20%\rdone\nno end"
    lines = logs.of_lines("stdout")
    lines(b"[1] one\n[2] t")
    lines(b"wo\n[1] more\n")
    assert (tmp_path / "rank.1/stdout").read_bytes() == b"one\nmore\n"
    assert (tmp_path / "rank.2/stdout").read_bytes() == b"two\n"


def test_a_log_on_a_full_disk_ends_and_the_job_goes_on(tmp_path):
    (tmp_path / "rank.0").mkdir()
    (tmp_path / "rank.0/stdout").symlink_to("/dev/full")
    program = "for i in range(3): print(i, flush=True)"
    done = subprocess.run(
        [*RUN, "1", "--log-dir", tmp_path, sys.executable, "-c", program],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout == "[0] 0\n[0] 1\n[0] 2\n"
    assert done.stderr.count("No space left on device") == 1


def in_shell(line, *words):
    """What a shell says to a line in which "$@" runs Python on two ranks."""
    return subprocess.run(
        ["sh", "-c", line, "sh", *RUN, "2", sys.executable, "-c", *words],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        ('"$@" > /dev/full', 1, "cannot write to standard output: No space left"),
        ('"$@" >&-', 0, ""),
        ('"$@" 2>&-', 0, ""),
        ('"$@" <&-', 0, ""),
        ('ulimit -n 12; "$@"', 1, "12 are allowed, 22 are needed: ulimit -n 22"),
        ('ulimit -n 22; "$@"', 0, ""),
    ],
)
def test_output_that_cannot_be_written_is_one_sentence(line, code, words):
    done = in_shell(line, "print('said')")
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == (1 if words else 0)


def test_a_log_folder_that_cannot_be_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    done = in_shell(f'"$@" --log-dir {tmp_path}/file/logs', "pass")
    assert done.returncode == 0  # it was for Python
    folder = tmp_path / "file" / "logs"
    done = subprocess.run(
        [*RUN, "1", "--log-dir", folder, "true"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: --log-dir {folder}: cannot be made")


def test_a_prompt_appears_before_it_is_answered():
    program = "import os\nif os.environ['RANK'] == '0': print(repr(input('name? ')))"
    command = [*RUN, "2", sys.executable, "-c", program]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as job:
        said = b""
        while b"name? " not in said and (data := os.read(job.stdout.fileno(), 100)):
            said += data
        job.stdin.write(b"Ada\n")
        job.stdin.close()
        said += job.stdout.read()
    assert said == b"[0] name? 'Ada'\n"


def test_progress_bars_appear_at_once():
    program = "import time\nprint('50%', end='\\r', flush=True)\ntime.sleep(600)"
    with subprocess.Popen(
        [*RUN, "1", sys.executable, "-c", program], stdout=subprocess.PIPE
    ) as job:
        assert os.read(job.stdout.fileno(), 100) == b"[0] 50%\r"
        job.terminate()


def test_nothing_is_lost_to_a_slow_reader_and_signals():
    """In short writes, while the launcher handles signals between them."""
    program = "for i in range(40): print((str(i) + ' ') * 15000, flush=True)"
    with subprocess.Popen(
        [*RUN, "2", sys.executable, "-c", program],
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as job:  # fmt: skip
        first = os.read(job.stdout.fileno(), 1)
        for _ in range(20):
            time.sleep(0.02)
            job.send_signal(signal.SIGWINCH)
        lines = (first + job.stdout.read()).splitlines()
    assert job.returncode == 0
    words = [str(number).encode() for number in range(40) for _ in range(15000)]
    assert text_of(0, lines).split() == text_of(1, lines).split() == words


def test_a_stop_loses_no_output(tmp_path):
    program = """
import signal, sys
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
number = 0
while not over:
    print(f"line {number} END\\n", end="", flush=True)
    number += 1
"""
    with subprocess.Popen(
        [*RUN, "2", "--log-dir", str(tmp_path), sys.executable, "-c", program],
        stdout=subprocess.PIPE,
    ) as job:
        first = os.read(job.stdout.fileno(), 100)
        reader = threading.Timer(0.3, job.terminate)
        reader.start()
        output = first + job.stdout.read()
    assert job.returncode == 128 + signal.SIGTERM
    for rank in range(2):
        text = text_of(rank, output.splitlines())
        numbers = re.findall(rb"line (\d+) END", text)
        assert numbers == [b"%d" % number for number in range(len(numbers))]
        log = (tmp_path / f"rank.{rank}/stdout").read_bytes()
        assert log.replace(b"\n", b"") == text


def test_a_reader_that_takes_nothing_does_not_hold_up_a_stop():
    with subprocess.Popen(
        [*RUN, "2", "yes"], stdout=subprocess.PIPE, start_new_session=True
    ) as job:
        os.read(job.stdout.fileno(), 1)
        job.terminate()
        assert job.wait(60) == 128 + signal.SIGTERM  # with its output unread


def test_a_log_that_is_a_pipe_without_reader_is_an_error(tmp_path):
    (tmp_path / "rank.1").mkdir()
    os.mkfifo(tmp_path / "rank.1/stdout")
    done = subprocess.run(
        [*RUN, "2", "--log-dir", tmp_path, "echo", "hi"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == ["[0] hi", "[1] hi"]
    assert "rank.1/stdout: No such device or address" in done.stderr


def test_a_rank_killed_by_a_signal_without_a_name_is_reported():
    done = subprocess.run(
        [*RUN, "1", "sh", "-c", "kill -40 $$"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 128 + 40
    assert "was killed by signal 40" in done.stderr
