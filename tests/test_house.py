"""Files have at most 300 lines, and functions at most 20 lines of code.

A function that stays long says why in a comment of the form ``# Long: the reason``.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

MOST_LINES, MOST_CODE = 300, 20

#: What is measured; the rest is made by a program, or is no code.
FOLDERS = ("collalgo", "bench", "tests", "docs", "examples")
SUFFIXES = ("py", "pyx", "pxd", "h", "cuh", "cu")

CYTHON = re.compile(r"( *)(?:cdef|cpdef|def) (?!class |struct |enum )[^=]*?(\w+)\(")

#: The name of a function of C or C++, and its body.
IN_C = re.compile(
    r"^( *)(?!(?:if|for|while|switch|else|do)\b)[\w:][^;{}#]*?(\w+)\([^;{}]*\)"
    r"[\s\w]*\{\n(.*?)^\1\}",
    re.MULTILINE | re.DOTALL,
)

#: Lines that are no code, of any of these languages.
COMMENT = ("#", "/*", "*", "//")


def sources() -> Iterator[Path]:
    yield ROOT / "setup.py"
    for folder in FOLDERS:
        for suffix in SUFFIXES:
            yield from sorted((ROOT / folder).rglob(f"*.{suffix}"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The functions of a file, with the lines of their bodies."""
    text = path.read_text()
    if path.suffix == ".py":
        return in_python(text)
    return in_cython(text) if path.suffix in (".pyx", ".pxd") else in_c(text)


def in_python(text: str) -> Iterator[tuple[str, list[str]]]:
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) is not None
            first = node.body[0].end_lineno if documented else node.body[0].lineno - 1
            yield node.name, lines[first : node.end_lineno]


def in_cython(text: str) -> Iterator[tuple[str, list[str]]]:
    lines = text.splitlines()
    for i, line in enumerate(lines):
        found = CYTHON.match(line)
        end = found and signature_end(lines, i)
        if found and end:
            inside = re.compile(rf" {{{len(found[1]) + 1}}}|\s*$")
            last = end
            while last < len(lines) and inside.match(lines[last]):
                last += 1
            body = re.sub(r'^\s*"""[\s\S]*?"""', "", "\n".join(lines[end:last]))
            yield found[2], body.splitlines()


def signature_end(lines: list[str], first: int) -> int | None:
    """The line after a signature; None if it is no definition."""
    depth = 0
    for i in range(first, len(lines)):
        code = re.sub(r'#.*|"[^"]*"', "", lines[i]).rstrip()
        depth += sum(map(code.count, "([")) - sum(map(code.count, ")]"))
        if depth <= 0:
            return i + 1 if code.endswith(":") else None
    return None


def in_c(text: str) -> Iterator[tuple[str, list[str]]]:
    for found in IN_C.finditer(text):
        yield found[2], found[3].splitlines()


def is_long(body: list[str]) -> bool:
    stripped = [line.strip() for line in body]
    if any(line.startswith(("# Long: ", "/* Long: ")) for line in stripped):
        return False
    return sum(bool(x) and not x.startswith(COMMENT) for x in stripped) > MOST_CODE


def test_no_file_is_long() -> None:
    lengths = {name_of(p): len(p.read_text().splitlines()) for p in sources()}
    assert len(lengths) > 800
    assert not {name: n for name, n in lengths.items() if n > MOST_LINES}


def test_a_long_function_says_why() -> None:
    long: dict[str, set[str]] = {}
    for path in sources():
        for name, body in functions(path):
            if is_long(body):
                long.setdefault(name_of(path), set()).add(name)
    assert not long


LONG_CASES = ((20, "", False), (21, "", True), (21, "Long: ", False))


@pytest.mark.parametrize("suffix", ["py", "pyx", "pxd"])
@pytest.mark.parametrize(("lines", "reason", "expected"), LONG_CASES)
def test_lines_of_code_are_counted_without_comments(
    tmp_path: Path, suffix: str, lines: int, reason: str, expected: bool
) -> None:
    path = tmp_path / f"some.{suffix}"
    body = [
        f'    """Some words."""\n\n    # {reason}the reason',
        *["    x = 1"] * lines,
    ]
    path.write_text("\n".join(["def f(", "    a,", "):", *body, "", "y = 2"]))
    assert [(name, is_long(code)) for name, code in functions(path)] == [
        ("f", expected)
    ]


@pytest.mark.parametrize("suffix", ["h", "cuh", "cu"])
@pytest.mark.parametrize(("lines", "reason", "expected"), LONG_CASES)
def test_lines_of_c_are_counted_without_comments(
    tmp_path: Path, suffix: str, lines: int, reason: str, expected: bool
) -> None:
    path = tmp_path / f"some.{suffix}"
    loop = ["    for (;;) {", *["        x = 1;"] * (lines - 2), "    }"]
    body = [f"    /* {reason}the reason */", "", "#if X", *loop, "#endif", "}"]
    head = ["struct s {", "    int x;", "};", "static int f(int a,", "    int b)", "{"]
    path.write_text("\n".join([*head, *body, "", "int g(void) { return 1; }", ""]))
    assert [(name, is_long(code)) for name, code in functions(path)] == [
        ("f", expected)
    ]
