"""Pages, messages and docstrings are in plain English: no phrase of this list.

Links between the pages lead to files and headings that exist.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

#: Phrases to avoid, as expressions, and what to write instead.
PHRASES = {
    r"(is|are) none\b": "name what is missing: 'None without a path'",
    r"(?<![Tt]here )\bis no (?!longer|more|such|other)(?=\w)": "'is not a'",
    r"\bso many\b": "'a number of'",
    r"\bhad better\b": "an imperative",
    r"\bwhat there is\b": "the noun",
    r"\bin the way\b": "'limits' or 'prevents'",
    r"\btells of\b": "'reports'",
    r", which\.(?!\w)": "a second sentence",
    r"\bdearer\b": "'more expensive'",
    r"\bin vain\b": "what was waited for, and how long",
    r"\bby way of\b": "'through'",
    r"\b(say|says) so\b": "'reports' or 'names'",
    r"\bmay stand\b": "'may replace' or 'may precede'",
    r"\bas good as none\b": "'is ignored'",
    r"\bwho is (gone|late|told|not known)\b": "the noun: 'the lost ranks'",
    r"\bin good order\b": "'normally'",
    r"\bfor good\b": "'permanently'",
    r"\bharder (ones?|signals?)\b": "'stronger'",
    r"\bthe better reason\b": "'the more precise cause'",
    r"\bfor ever\b": "'without a limit'",
    r"\banew\b": "'again'",
    r"\bnow and then\b": "'at intervals'",
    r"\b(broken|breaks?) off\b": "'aborted' or 'cancelled'",
    r"\bwhat (goes|is) wrong\b": "'the error'",
    r"\bwhat errors call\b": "'the name in errors'",
    r"\b(members|ranks|those) that are left\b": "'the survivors'",
    r"\bbetween two looks\b": "'between two polls'",
    r"\bdo(es)? no(t| longer) come up\b": "'does not start' or 'cannot connect'",
    r"\b(have|has|had) (not )?come (too?|yet|on|from|through|in time)\b": "'arrived'",
    r"\bat a glance\b": "'a fast check'",
    r"\bwell or not\b": "'with a result or an error'",
    r"\bwould find a place\b": "'would be admitted'",
    r"\bgo(es)? by (its|the) name\b": "'is pickled by name'",
    r"\b(is|are|not) (not )?there\b(?! (is|are|yet|for))": "'not supported', 'exists'",
    r"\bas far as\b": "'if', 'where' or 'until'",
    r"\b(take|Take) note\b": "'record'",
    r"\bnobody\b": "'no other process' or the passive",
    r"\b(in a|as a) circle\b": "'in a cycle' or 'a deadlock'",
    r"\bnothing says\b": "'no dependency orders'",
    r"\bone a line\b": "'one per line'",
    r"\bfiles? of rules\b": "'rules file'",
    r"\bin the turn of\b": "'when the call runs'",
    r"\b(bits|order) on other ranks\b": "'different bits on the ranks'",
    r"\bother order of bytes\b": "'other byte order'",
    r"\bheard from\b": "'received from'",
    r"\bstands? for\b": "'means' or 'selects'",
    r"\b(parts?|rows?) from \S+ on\b": "the range, with both ends",
    r"\bone behind the other\b": "'one after the other'",
    r"\bpositions? behind\b": "'the position after'",
    r"\bmust meet\b": "'must synchronise'",
    r"\bwho (asks?|connects?|holds)\b": "the noun: 'the newcomers'",
    r"\bhow the price is to be\b": "'a caveat of the price'",
    r"\bis linked to nothing\b": "'has no link'",
}
#: The phrases that begin with a word, whose beginning is checked once for all: several
#: times as fast as an alternative for each of them.
WORDS = "|".join(each.removeprefix(r"\b") for each in PHRASES if each.startswith(r"\b"))
OTHERS = "|".join(each for each in PHRASES if not each.startswith(r"\b"))
FORBIDDEN = re.compile(rf"\b(?:{WORDS})|{OTHERS}")

PAGES = [
    *(
        ROOT / f"{name}.md"
        for name in ("README", "CHANGELOG", "CONTRIBUTING", "SECURITY")
    ),
    *(ROOT / "docs").rglob("*.md"),
]

LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]*))?\)")


def prose() -> Iterator[Path]:
    """The files whose sentences users and developers read."""
    yield from PAGES
    for folder in ("collalgo", "bench", "docs", "examples"):
        for suffix in ("py", "pyx", "pxd", "h", "cu", "cuh"):
            yield from sorted((ROOT / folder).rglob(f"*.{suffix}"))


def found_in(text: str) -> list[str]:
    """The forbidden phrases of a text, also across the end of a line."""
    joined = re.sub(r'"?\n[ \t]*(?:#:? |f?"|\* )?', " ", text)
    words = " ".join(joined.split())
    return [match[0] for match in FORBIDDEN.finditer(words)]


@pytest.mark.parametrize(
    "text",
    [
        "None if there is none.",
        "'x' is no size",
        '    f"{x!r} is "\n    "no size"',
        "# links, so\n# many of them",
    ],
)
def test_a_phrase_is_found_across_lines(text: str) -> None:
    assert len(found_in(text)) == 1


@pytest.mark.parametrize("text", ["rank 1 is no longer here", "it is not a size"])
def test_plain_words_are_not_found(text: str) -> None:
    assert not found_in(text)


def test_no_sentence_has_a_forbidden_phrase() -> None:
    files = list(prose())
    assert len(files) > 500
    found = {path: found_in(path.read_text()) for path in files}
    named = {
        path.relative_to(ROOT).as_posix(): phrases
        for path, phrases in found.items()
        if phrases
    }
    assert not named, f"{named}; write instead: {PHRASES}"


def anchors(page: Path) -> set[str]:
    """The anchors of headings, as forges make them, and of documented names."""
    text = page.read_text()
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    names = re.findall(r"^\.\. auto\w+:: ([\w.]+)$", text, re.MULTILINE)
    named = {re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles}
    return named.union(names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for name, heading in LINK.findall(page.read_text()):
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {name}"
        if heading and target.suffix == ".md":
            assert heading in anchors(target), f"{page.name}: {name}#{heading}"


def test_the_index_has_a_line_for_every_page() -> None:
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {
        "index.md",
        "site.md",
    }
    index = (ROOT / "docs" / "index.md").read_text()
    listed = re.findall(r"^- \[[^\]]+\]\(([a-z0-9_]+\.md)\): \S", index, re.MULTILINE)
    assert sorted(listed) == sorted(pages)


def test_the_readme_is_a_page_of_at_most_120_lines() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120
