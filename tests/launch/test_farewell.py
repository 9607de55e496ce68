"""The last line of an agent: found in its output however that is cut."""

import os
from contextlib import closing

import pytest

from collalgo.launch.farewell import AgentOutput, farewell
from collalgo.launch.output import sinks

LINE = f"{farewell('word')}\n".encode()


def passed(parts, capfdbinary, word="word"):
    """What of the output of an agent is forwarded, and whether it ended with the line.

    The parts are read one by one.
    """
    reading, writing = os.pipe()
    with closing(os.fdopen(reading, "rb", 0)) as pipe:
        stream = AgentOutput(pipe, sinks(is_part=True))
        stream.expect(word)
        for part in parts:
            os.write(writing, part)
            assert stream.forward()
        os.close(writing)
        stream.drain()
    return capfdbinary.readouterr().out, stream.has_farewell


@pytest.mark.parametrize("before", [b"", b"[0] x\n", b"[0] \x1ethe exit\n", b"\x1e\n"])
def test_the_line_is_found_and_not_forwarded_however_it_is_cut(before, capfdbinary):
    text = before + LINE
    for cut in range(1, len(text)):
        parts = text[:cut], text[cut:]
        assert passed(parts, capfdbinary) == (before, True)
    every = [text[i : i + 1] for i in range(len(text))]
    assert passed(every, capfdbinary) == (before, True)


def test_what_only_resembles_it_is_output(capfdbinary):
    for text in (LINE[:-1], LINE[:9], b"\x1e", LINE.replace(b"word", b"guess")):
        whole = text if text.endswith(b"\n") else text + b"\n"
        assert passed([text], capfdbinary) == (whole, False)
    assert passed([LINE], capfdbinary, "another") == (LINE, False)
