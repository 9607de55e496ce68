"""The output of ranks: whole lines, unfinished lines and logs."""

import os

from hypothesis import given, settings, strategies as st

from collalgo.launch.destination import Destination
from collalgo.launch.log_files import PARTIAL_BYTES, LogFiles
from collalgo.launch.output import Stream

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

    def __init__(self, destination, prefix, log=None, tracebacks=None):
        out, self.into = os.pipe()
        pipe = os.fdopen(out, "rb", 0)
        self.stream = Stream(pipe, destination, prefix, log=log, tracebacks=tracebacks)

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
    found = parts(output)
    for number in range(3):
        prefix = f"[{number}] ".encode()
        mine = [line.removeprefix(prefix) for line in found if line.startswith(prefix)]
        assert list(filter(None, mine)) == list(filter(None, parts(written[number])))


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


def test_a_line_of_any_length_goes_to_the_file_of_the_rank_that_begins_it(tmp_path):
    logs = LogFiles(tmp_path)
    write = logs.of_lines("stdout")
    long = b"x [2] " * PARTIAL_BYTES
    for part in (b"[1] " + long[:100], long[100:], b"end\n[2] mine\nof [3] none\n"):
        write(part)
    assert logs.path(1, "stdout").read_bytes() == long + b"end\n"
    assert logs.path(2, "stdout").read_bytes() == b"mine\n"
    assert not logs.path(3, "stdout").exists()
