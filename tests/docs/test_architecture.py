"""The page of the architecture is true: its picture, its files, its glossary."""

import re

import pytest

from docs import layers
from tests.support.paths import ROOT

pytestmark = pytest.mark.parallel

#: A step on the way of a call or a job: a function, and its file.
STEP = r"^\d+\. `([\w.]+)`[^(]*\(`([\w/]+\.pyx?)`\)"

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_picture_is_drawn_from_the_contracts():
    assert layers.PICTURE.read_text() == layers.picture(), "run make docs"


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`(\w+/[\w/]+(?:\.pyx|\.py|/))`", PAGE)
    assert named
    for name in named:
        assert any((ROOT / top / name).exists() for top in ("", "collalgo")), name


def test_every_function_on_the_ways_is_in_its_file():
    steps = re.findall(
        r"^\d+\. `([\w.]+)`[^(]*\(`([\w/]+\.pyx?)`\)", PAGE, re.MULTILINE
    )
    assert len(steps) > 15
    for name, file in steps:
        text = (ROOT / "collalgo" / file).read_text()
        for part in name.split("."):
            assert re.search(rf"(def|class|cp?def (inline )?\w+) {part}\b", text), name


def test_a_term_of_the_glossary_has_at_most_25_words():
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.partition("Glossary")[2], re.MULTILINE
    )
    assert len(rows) > 20
    for term, meaning in rows:
        assert len(meaning.split()) <= 25, term
