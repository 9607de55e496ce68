"""Output has colours on a terminal only, and none with NO_COLOR."""

import os
import pty
import re
import subprocess
import sys

import pytest

COMMAND = (sys.executable, "-m", "collalgo", "doctor", "-n", "4000")

#: An escape sequence, and one that sets a colour.
ESCAPE, COLOUR = (
    re.compile(rb"\x1b\["),
    re.compile(rb"\x1b\[(?:\d+;)*(?:3|4|9|10)\d[;m]"),
)


def on_terminal(**variables: str) -> bytes:
    """The output of the command on a terminal."""
    ours, theirs = pty.openpty()
    known = {
        k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")
    }
    environment = {**known, "TERM": "xterm-256color", **variables}
    with subprocess.Popen(COMMAND, stdout=theirs, env=environment) as command:
        os.close(theirs)
        found = b""
        try:
            while part := os.read(ours, 65536):
                found += part
        except OSError:  # the end of the command
            pass
        finally:
            os.close(ours)
    assert command.returncode == 0
    return found


def test_a_pipe_gets_text_only():
    assert not ESCAPE.search(subprocess.check_output(COMMAND))


@pytest.mark.parametrize(
    ("variables", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)]
)
def test_a_terminal_gets_colours_unless_they_are_refused(variables, coloured):
    found = on_terminal(**variables)
    assert b"4000 ranks" in re.sub(rb"\x1b\[[\d;]*m", b"", found)
    assert bool(COLOUR.search(found)) == coloured
