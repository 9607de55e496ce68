"""Tracebacks in the output of ranks: they are whole, and equal ones are shown once."""

import pytest
from hypothesis import given, settings, strategies as st

from collalgo.launch import tracebacks
from collalgo.launch.destination import Destination
from collalgo.launch.log_files import LogFiles
from collalgo.launch.tracebacks import HEADER, MOST_LINES, ShownTracebacks, Tracebacks
from tests.launch.test_output import Piped, Written

LINES = [HEADER, b'  File "a.py", line 1', b"    f()", b"ValueError: no"]

TRACEBACK = b"\n".join(LINES) + b"\n"

NOTE = b"(the same traceback as that of rank %d)\n"

PIECES = st.lists(
    st.sampled_from(
        [TRACEBACK, *(line + b"\n" for line in LINES), HEADER, b"word", b"\n", b"\r"]
    ),
    max_size=12,
)


class Ranks:
    """Ranks whose standard error is forwarded to one file."""

    def __init__(self, size, log=lambda rank: None):
        self.file, shown = Written(), ShownTracebacks()
        destination = Destination(self.file.file, "a file")
        self.streams = [
            Piped(destination, b"[%d] " % n, log(n), Tracebacks(shown, n))
            for n in range(size)
        ]

    def end(self):
        """End all ranks: what was written."""
        for each in self.streams:
            each.end()
        return self.file.value()


def of_rank(rank, text):
    """Lines with the prefix of a rank."""
    return b"".join(b"[%d] %s" % (rank, line) for line in text.splitlines(True))


@settings(max_examples=200)
@given(pieces=PIECES, cut=st.integers(1, 99))
def test_all_output_of_one_rank_gets_through_in_order(pieces, cut):
    text, taken = b"".join(pieces) + b"\n", b""
    held = Tracebacks(ShownTracebacks(), 0)
    lines = text.splitlines(True)
    for start in range(0, len(lines), cut):
        taken += held.take(b"".join(lines[start : start + cut]))
    assert taken + held.release() == text
    assert not held.holds


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 17])
def test_equal_tracebacks_of_ranks_are_shown_once_and_whole(size, tmp_path):
    logs = LogFiles(tmp_path)
    ranks = Ranks(size, lambda rank: logs.of_rank(rank, "stderr"))
    for line in LINES:
        for each in ranks.streams:
            each.send(line + b"\n")
    others = b"".join(b"[%d] " % rank + NOTE % 0 for rank in range(1, size))
    assert ranks.end() == of_rank(0, TRACEBACK) + others
    for rank in range(size):
        assert logs.path(rank, "stderr").read_bytes() == TRACEBACK


def test_other_tracebacks_are_shown_whole_in_the_order_of_their_ends():
    ranks = Ranks(2)
    first, second = ranks.streams
    other = [*LINES[:3], b"KeyError: 1"]
    first.send(b"\n".join(LINES[:2]) + b"\n")
    for line in other:
        second.send(line + b"\n")
    first.send(b"\n".join(LINES[2:]) + b"\n")
    assert ranks.end() == of_rank(1, b"\n".join([*other, b""])) + of_rank(0, TRACEBACK)


def test_other_lines_of_a_rank_come_before_and_after_its_traceback():
    ranks = Ranks(2)
    for each in ranks.streams:
        each.send(b"before\n" + TRACEBACK + b"after\n")
    first = of_rank(0, b"before\n" + TRACEBACK + b"after\n")
    assert ranks.end() == first + of_rank(1, b"before\n" + NOTE % 0 + b"after\n")


def test_a_rank_that_repeats_its_traceback_is_shown_again():
    shown = ShownTracebacks()
    first, second = (Tracebacks(shown, rank) for rank in range(2))
    assert first.take(TRACEBACK) == TRACEBACK
    assert second.take(TRACEBACK) == NOTE % 0
    assert second.take(TRACEBACK) == TRACEBACK
    assert first.take(TRACEBACK) == NOTE % 1


def test_an_old_traceback_is_shown_again(monkeypatch):
    monkeypatch.setattr(tracebacks, "SAME_SECONDS", -1.0)
    shown = ShownTracebacks()
    assert Tracebacks(shown, 0).take(TRACEBACK) == TRACEBACK
    assert Tracebacks(shown, 1).take(TRACEBACK) == TRACEBACK


def test_lines_of_an_agent_are_told_apart_by_their_prefixes():
    held = Tracebacks(ShownTracebacks(), None)
    lines = zip(TRACEBACK.splitlines(True), TRACEBACK.splitlines(True), strict=True)
    mixed = b"".join(b"[4] %s[11] %s" % pair for pair in lines)
    assert held.take(mixed) == of_rank(4, TRACEBACK) + b"[11] " + NOTE % 4
    assert held.take(b"no rank\n") == b"no rank\n"


def test_an_unfinished_traceback_waits_for_a_while_only_and_is_bounded():
    ranks = Ranks(1)
    stream = ranks.streams[0]
    stream.send(HEADER + b"\n  File")
    assert ranks.file.value() == b""
    assert 0 <= stream.stream.seconds_left() < 1
    stream.stream.flush()
    assert ranks.file.value() == b"[0] " + HEADER + b"\n[0]   File"
    assert stream.stream.seconds_left() is None
    stream.send(b"\n" + HEADER + b"\n")
    for _ in range(MOST_LINES):
        stream.send(b"  x\n")
    assert len(ranks.file.value()) > MOST_LINES * len(b"[0]   x\n")
    ranks.end()
