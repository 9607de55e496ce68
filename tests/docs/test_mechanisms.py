"""The page of mechanisms names code and tests that are there."""

import re

import pytest

from collalgo import ALGORITHMS
from tests.support.paths import ROOT

PAGE = (ROOT / "docs" / "mechanisms.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", PAGE, re.MULTILINE)
ROWS = [row for row in ROWS if row[0] != "mechanism"]

#: Names, and the file that they are in, if one follows.
NAMED = re.compile(r"((?:`\w+`(?:, )?)+)(?: \(`([\w/]+\.pyx?)`\))?")


def test_the_page_has_the_three_parts():
    parts = re.findall(r"^## (.+)$", PAGE, re.MULTILINE)
    assert parts == ["Launcher", "Process groups", "Topology algorithms"]
    assert len(ROWS) > 50
    assert len({mechanism for mechanism, *_ in ROWS}) == len(ROWS)


@pytest.mark.parametrize(
    ("mechanism", "here", "test"), ROWS, ids=lambda cell: cell[:30]
)
def test_the_names_of_a_row_are_there(mechanism, here, test):
    algorithms = {row.base_name for row in ALGORITHMS}
    named = NAMED.findall(here)
    assert named
    for names, file in named:
        each = re.findall(r"\w+", names)
        text = (ROOT / "collalgo" / file).read_text() if file else ""
        for name in each:
            defined = re.search(rf"\b(def|class) {name}\b", text)
            assert defined or name in algorithms, (name, file)
    (where, name) = re.fullmatch(r"`([\w/]+\.py)::(test_\w+)`", test).groups()
    assert re.search(
        rf"^def {name}\(", (ROOT / "tests" / where).read_text(), re.MULTILINE
    )
