"""Text for a terminal is broken between words, other text never."""

import os
import sys

import pytest

from collalgo.base.console import wrapped

pytestmark = pytest.mark.parallel

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
