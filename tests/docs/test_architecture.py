"""The page of the architecture is true: its picture, its files, its glossary."""

import re

from docs import layers
from tests.support.paths import ROOT

#: A step on the way of a call or a job: a function, and its file.
STEP = r"^\d+\. `([\w.]+)`[^(]*\(`([\w/]+\.pyx?)`\)"

#: The most steps of a first call, and files of a start on one host.
MOST_STEPS, MOST_FILES = 12, 10

PAGE = (ROOT / "docs" / "architecture.md").read_text()


def test_the_picture_is_drawn_from_the_contracts():
    assert layers.PICTURE.read_text() == layers.picture(), "run make docs"


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`(\w+/[\w/]+(?:\.pyx|\.pxd|\.py|\.h|/))`", PAGE)
    assert named
    for name in named:
        assert any((ROOT / top / name).exists() for top in ("", "collalgo")), name


def test_every_function_on_the_ways_is_in_its_file():
    steps = re.findall(STEP, PAGE, re.MULTILINE)
    assert len(steps) > 15
    for name, file in steps:
        text = (ROOT / "collalgo" / file).read_text()
        for part in name.split("."):
            assert re.search(rf"(def|class|cp?def (inline )?\w+) {part}\b", text), name


def test_the_ways_stay_short():
    call = PAGE.partition("## The path of a call")[2].partition("\n## ")[0]
    assert len(re.findall(STEP, call, re.MULTILINE)) <= MOST_STEPS
    start = PAGE.partition("the whole path is ten files:")[2].partition("Beside")[0]
    assert len(re.findall(r"`\w+/\w+\.py`", start)) <= MOST_FILES


def test_a_term_of_the_glossary_has_at_most_25_words():
    rows = re.findall(
        r"^\| ([^|]+) \| ([^|]+) \|$", PAGE.partition("Glossary")[2], re.MULTILINE
    )
    assert len(rows) > 20
    for term, meaning in rows:
        assert len(meaning.split()) <= 25, term
