"""Commands whose standard output or standard error is closed."""

import sys

import pytest

from collalgo.cli.main import main

CLOSED = {"stdout": ("stdout",), "stderr": ("stderr",), "both": ("stdout", "stderr")}

COMMANDS = [
    "algorithms show ring -c allreduce",
    "bound allgather dgx1v",
    "env",
    "select allreduce 1M dgx1v",
    "select allreduce 1K..4K dgx1v",
    "select allreduce 1M dgx1v --json",
    "simulate allreduce ring dgx1v",
    "topo list",
    "topo show dgx1v",
    "verify ring -n 2",
]


def end_of(words, closed, monkeypatch):
    """The exit code of a command without some of its streams."""
    for name in CLOSED[closed]:
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(SystemExit) as ended:
        main(words.split())
    return ended.value.code


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_ends_as_with_open_streams(words, closed, monkeypatch):
    assert end_of(words, closed, monkeypatch) == 0


@pytest.mark.parametrize("closed", CLOSED)
def test_an_error_ends_as_with_open_streams(closed, monkeypatch):
    assert end_of("select allreduce 1M no_such_file", closed, monkeypatch) == 1


@pytest.mark.parametrize("words", ["topo convert dgx1v", "topo draw dgx1v -o -"])
def test_what_is_to_be_written_to_a_closed_stream_is_an_error(
    words, monkeypatch, capsys
):
    assert end_of(words, "stdout", monkeypatch) == 1
    assert "cannot write to standard output: Bad file" in capsys.readouterr().err
    assert end_of(words, "both", monkeypatch) == 1
