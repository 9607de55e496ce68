"""The calls beside those of other libraries run as the page has them."""

import re

import numpy as np
import pytest

import collalgo
from tests.support.paths import ROOT

TEXT = (ROOT / "docs" / "coming_from.md").read_text()


def sections():
    """The calls of each section, in their order."""
    found = {}
    for section in TEXT.split("\n## ")[1:]:
        rows = re.findall(r"^\| .* \| (.*) \|$", section, re.MULTILINE)
        calls = [call for row in rows for call in re.findall(r"`([^`]*)`", row)]
        if calls:
            found[section.partition("\n")[0]] = calls
    return found


def names_of(comm):
    """What the calls are made with."""
    size = comm.size
    return {
        "comm": comm,
        "collalgo": collalgo,
        "x": np.ones(4),
        "y": np.ones(4),
        "rows": np.ones((size, 4)),
        "pairs": np.zeros(4, "f8,i8"),
        "index": np.arange(4),
        "to": (comm.rank + 1) % size,
        "source": (comm.rank - 1) % size,
        "targets": [(comm.rank + 1) % size],
        "blocks": np.ones((1, 4)),
        "counts": [1],
        **dict.fromkeys(("splits", "sent", "received"), [1] * size),
        "things": [None] * size,
        "color": comm.rank % 2,
        "dims": (size, 1),
    }


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("library", sections())
def test_the_calls_beside_those_of_a_library_run(library, size):
    def on_each_rank(comm):
        names = names_of(comm)
        for call in sections()[library]:
            exec(call, names)

    collalgo.threads(on_each_rank, size, timeout=60)


def test_every_library_of_the_title_has_its_calls():
    title = TEXT.partition("\n")[0]
    assert len(sections()) == 4
    assert all(library in title for library in sections())
    assert all(len(calls) > 7 for calls in sections().values())
