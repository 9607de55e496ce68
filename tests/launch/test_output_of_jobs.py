"""The output of jobs: prompts, slow readers, full disks and stops."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

RUN = (sys.executable, "-m", "collalgo", "run", "-n")


def text_of(rank, lines):
    """What a rank has written, without newlines: a busy machine may part a line."""
    prefix = f"[{rank}] ".encode()
    return b"".join(x.removeprefix(prefix) for x in lines if x.startswith(prefix))


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


UNTIL_STOPPED = """
import signal, sys
over = []
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
number = 0
while not over:
    print(f"line {number} END\\n", end="", flush=True)
    number += 1
"""


def test_a_stop_loses_no_output(tmp_path):
    with subprocess.Popen(
        [*RUN, "2", "--log-dir", str(tmp_path), sys.executable, "-c", UNTIL_STOPPED],
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
