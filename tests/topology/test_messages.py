"""Errors and warnings that quote a topology file are short and printable."""

import re
from collections.abc import Iterator
from itertools import islice

import pytest
from click.testing import CliRunner

from collalgo import TopologyError
from collalgo.base.legible import LONGEST, LONGEST_WORD
from collalgo.cli.main import main
from collalgo.topology.readers import parse
from tests.support.small_files import SMALL

#: What replaces a word of a file: a long word, a bidirectional mark, a long number.
ODD = ("x" * 100_000, "a\u202eb", "7" * 5000)


def damaged(text: str) -> Iterator[str]:
    """A text with each of its words replaced by an odd one."""
    for found in re.finditer(r"[\w.\-]+", text):
        for odd in ODD:
            yield text[: found.start()] + odd + text[found.end() :]


def messages_of(text: str) -> list[str]:
    try:
        return parse(text, "file").warnings
    except TopologyError as error:
        return [str(error)]


@pytest.mark.parametrize("name", SMALL)
def test_what_is_quoted_is_short_and_printable(name):
    for text in islice(damaged(SMALL[name][0]), 0, None, 4):
        for said in messages_of(text):
            assert said.isprintable(), ascii(said)
            assert len(said) <= LONGEST + 100
            assert max(map(len, said.split())) <= LONGEST_WORD + 10 * len("\\u202e")


def test_commands_show_no_control_characters(tmp_path):
    path = tmp_path / "a.conf"
    path.write_text("SwitchName=\u202etop Switches=no\u202ene\n")
    for words in (["topo", "validate"], ["bound", "scan"]):
        for file in (path, tmp_path / "n\u202eone"):
            found = CliRunner().invoke(main, [*words, str(file)])
            assert found.exit_code == 1
            assert found.output.replace("\n", "").isprintable(), ascii(found.output)
            assert "\\u202e" in found.output
