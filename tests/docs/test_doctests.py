"""The examples in docstrings."""

import doctest
import re
from importlib import import_module

import pytest

from tests.support.paths import ROOT

EXAMPLE = re.compile(r"^ *>>> (?!.*\+SKIP)", re.MULTILINE)

#: How many examples each file has, without those that are skipped.
COUNTS = {
    path.relative_to(ROOT).as_posix(): len(EXAMPLE.findall(path.read_text()))
    for path in sorted((ROOT / "collalgo").rglob("*.py"))
}


@pytest.mark.parametrize("path", [path for path, count in COUNTS.items() if count])
def test_the_examples_of_a_file_are_right(path):
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    failed, attempted = doctest.testmod(import_module(name))
    assert not failed
    assert attempted >= COUNTS[path]  # those of compiled functions are found twice
