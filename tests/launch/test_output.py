"""The output of ranks: whole lines, prompts and progress bars at once, and failures."""

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings, strategies as st

from collalgo.launch.output import PARTIAL_BYTES, Destination, LogFiles, Stream

pytestmark = pytest.mark.parallel

RUN = (sys.executable, "-m", "collalgo", "run", "-n")

PIECES = st.lists(
    st.sampled_from([b"a", b"word ", b"\n", b"\r", b"\r\n", b"\n\n", b"long" * 99]),
    max_size=12,
)


class Piped:
    """A stream with the other end of its pipe."""

    def __init__(self, destination, prefix, log=None):
        out, self.into = os.pipe()
        self.stream = Stream(os.fdopen(out, "rb", 0), destination, prefix, log)

    def send(self, data):
        """Let the stream forward some data."""
        os.write(self.into, data)
        self.stream.forward()

    def end(self):
        """Close the pipe, and let the stream forward the rest."""
        os.close(self.into)
        while self.stream.forward():
            pass
        self.stream.pipe.close()


def parts(output):
    """Lines, and the parts of a line that a carriage return ends."""
    return output.replace(b"\r", b"\n").split(b"\n")


@settings(deadline=None, max_examples=200)
@given(pieces=PIECES)
def test_one_rank_gets_all_through_however_it_is_cut(pieces):
    file = io.BytesIO()
    rank = Piped(Destination(file, "a file"), b"")
    for piece in pieces:
        rank.send(piece)
        rank.stream.flush()
    rank.end()
    whole = b"".join(pieces)
    assert file.getvalue() in (whole, whole + b"\n")


@settings(deadline=None, max_examples=200)
@given(turns=st.lists(st.tuples(st.integers(0, 2), PIECES), max_size=8))
def test_lines_of_ranks_never_mix(turns):
    file = io.BytesIO()
    destination = Destination(file, "a file")
    ranks = [Piped(destination, f"[{number}] ".encode()) for number in range(3)]
    written = [b"", b"", b""]
    for number, pieces in turns:
        for piece in pieces:
            ranks[number].send(piece)
            written[number] += piece
    for rank in ranks:
        rank.end()
    output = file.getvalue()
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
    file = io.BytesIO()
    rank = Piped(Destination(file, "a file"), b"[0] ")
    rank.send(b"name? ")
    assert file.getvalue() == b""
    assert 0 <= rank.stream.seconds_left() < 1
    rank.stream.flush()
    assert file.getvalue() == b"[0] name? "
    rank.send(b"Ada\n")
    assert file.getvalue() == b"[0] name? Ada\n"
    for _ in range(2 + PARTIAL_BYTES // 60_000):
        rank.send(b"x" * 60_000)
    assert len(file.getvalue()) > PARTIAL_BYTES
    rank.end()


def test_another_rank_ends_an_unfinished_line_and_its_own_goes_on():
    file = io.BytesIO()
    destination = Destination(file, "a file")
    first, second = (Piped(destination, f"[{n}] ".encode()) for n in range(2))
    first.send(b"name? ")
    first.stream.flush()
    second.send(b"here\n")
    first.send(b"Ada\n")
    assert file.getvalue() == b"[0] name? \n[1] here\n[0] Ada\n"
    first.end()
    second.end()


def test_the_last_lines_are_kept():
    rank = Piped(Destination(io.BytesIO(), "a file"), b"[0] ")
    for number in range(100):
        rank.send(b"line %d\n" % number)
    assert rank.stream.last_lines[-2:] == [b"line 98", b"line 99"]
    assert len(rank.stream.last_lines) == 60
    rank.end()


def test_a_log_is_what_the_ranks_wrote(tmp_path):
    logs = LogFiles(tmp_path)
    rank = Piped(Destination(io.BytesIO(), "a file"), b"[7] ", logs.of_rank(7))
    rank.send(b"10%\r20%\rdone\nno ")
    rank.send(b"end")
    rank.end()
    assert (tmp_path / "rank_7.log").read_bytes() == b"10%\r20%\rdone\nno end"
    lines = logs.of_lines()
    lines(b"[1] one\n[2] t")
    lines(b"wo\n[1] more\n")
    assert (tmp_path / "rank_1.log").read_bytes() == b"one\nmore\n"
    assert (tmp_path / "rank_2.log").read_bytes() == b"two\n"


def test_a_log_on_a_full_disk_ends_and_the_job_goes_on(tmp_path):
    (tmp_path / "rank_0.log").symlink_to("/dev/full")
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
