"""The documentation site: its table of contents, and the code of its tutorials."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from collalgo.cli import docs
from collalgo.cli.main import main

DOCS = Path("docs")
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.DOTALL | re.MULTILINE)
TUTORIALS = [
    path for path in DOCS.glob("tutorials/*.md") if CELL.search(path.read_text())
]


def entries(path):
    """The pages that the tables of contents of a page name."""
    for tree in TREE.findall(path.read_text()):
        for line in tree.splitlines():
            if line and not line.startswith(":"):
                yield (path.parent / f"{line}.md").resolve()


def test_each_page_is_in_the_contents_once():
    found = sorted(entry for path in DOCS.rglob("*.md") for entry in entries(path))
    pages = {path.resolve() for path in DOCS.rglob("*.md")}
    pages -= {(DOCS / name).resolve() for name in ("index.md", "site.md")}
    assert found == sorted(pages)


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_the_code_of_a_tutorial_runs(path):
    shown, names = StringIO(), {}
    with redirect_stdout(shown):
        for cell in CELL.findall(path.read_text()):
            exec(compile(cell, str(path), "exec"), names)
    assert shown.getvalue()


def test_the_command_names_the_site_or_how_to_build_it(tmp_path, monkeypatch):
    site = tmp_path / "site.html"
    monkeypatch.setattr(docs, "SITE", site)
    missing = CliRunner().invoke(main, ["docs"])
    assert missing.exit_code == 1
    assert "run make site" in missing.output
    site.touch()
    assert CliRunner().invoke(main, ["docs", "--path"]).output.strip() == str(site)
