"""The real topology files, if available."""

import pytest

from tests.support.paths import SHARED

FOLDER = SHARED / "topologies"

needs_files = pytest.mark.skipif(
    not FOLDER.is_dir(), reason="the files of ../shared/topologies are not here"
)


def files():
    """All files but the list of them, relative to their folder."""
    return sorted(
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*")
        if path.is_file() and path.name != "MANIFEST.csv"
    )
