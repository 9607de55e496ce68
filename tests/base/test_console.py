"""Text for a terminal is broken between words, other text never."""

import io
import os
import sys
import time

import pytest

from collalgo.base import console
from collalgo.base.console import patience
from collalgo.base.wrapping import wrapped

TEXT = "a line of several words\n  ring, two_shot and 12 others: need 2 ranks\n\nend"


class Terminal:
    def isatty(self):
        return True


def test_text_for_a_file_stays(capsys):
    assert wrapped(TEXT) == wrapped(TEXT, stderr=True) == TEXT


@pytest.mark.parametrize("width", [8, 12, 17, 33, 80])
@pytest.mark.parametrize("stderr", [False, True])
def test_no_line_is_wider_than_the_terminal(width, stderr, monkeypatch):
    monkeypatch.setattr(sys, "stderr" if stderr else "stdout", Terminal())
    monkeypatch.setattr(
        "shutil.get_terminal_size", lambda: os.terminal_size((width, 9))
    )
    found = wrapped(TEXT, stderr=stderr)
    assert found.split() == TEXT.split()
    assert (found == TEXT) == (width == 80)
    longest = max(map(len, TEXT.split())) + len("      ")
    assert max(map(len, found.split("\n"))) <= max(width, longest)
    if width >= longest:
        assert found.split("\n")[-2:] == ["", "end"]


@pytest.mark.parametrize("silent", [0.0, 60.0])
def test_work_that_takes_a_while_shows_on_a_terminal_and_leaves_nothing(
    silent, monkeypatch
):
    class Screen(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(console, "SILENT", silent)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Screen())
    with pytest.raises(ZeroDivisionError), patience("dividing"):
        until = time.monotonic() + 30
        while silent == 0.0 and "dividing" not in sys.stderr.getvalue():
            assert time.monotonic() < until
            time.sleep(0.01)
        with patience("a part of it"):  # only one can be shown
            time.sleep(2 * min(silent, 0.01))
        1 / 0  # noqa: B018
    shown = sys.stderr.getvalue()
    assert ("dividing" in shown) == (silent == 0.0)
    assert "a part of it" not in shown
    assert not shown or shown.rstrip("\n").endswith("\x1b[2K")  # the line is erased


def test_work_for_a_file_shows_lines_if_it_takes_long(capsys, monkeypatch):
    with patience("dividing"):
        time.sleep(0.01)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(console, "UNSEEN", 0.01)
    monkeypatch.setattr(console, "MOST_UNSEEN", 0.01)
    monkeypatch.setattr(console, "_lines", console.Lines())
    with patience("dividing") as say, patience("a part of it"):
        say("failure 3 of 32")
        shown, until = "", time.monotonic() + 30
        while shown.count("\n") < 2:
            assert time.monotonic() < until
            shown += capsys.readouterr().err
            time.sleep(0.01)
    assert shown.startswith("failure 3 of 32: 0 s so far\nfailure 3 of 32: ")
