"""Files have at most 300 lines, and functions at most 20 lines of code.

A function that stays long says why in a comment of the form ``# Long: the reason``.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.parallel

MOST_LINES, MOST_CODE = 300, 20

#: What is still too long. A test fails if one of them no longer is, so that the lists
#: only shrink.
LONG_FILES = {
    "collalgo/_kernels/comm/point_to_point/mailbox.pyx",
    "collalgo/_kernels/comm/work.pyx",
    "collalgo/_kernels/engine/filling.pyx",
    "collalgo/_kernels/engine/posts.pyx",
    "collalgo/_kernels/engine/transport/host_endpoint.pyx",
}
LONG_FUNCTIONS: dict[str, set[str]] = {
    "collalgo/_kernels/comm/call_runner.pyx": {"call"},
    "collalgo/_kernels/comm/point_to_point/mailbox.pyx": {
        "begin_receive",
        "begin_send",
        "close",
        "iprobe",
    },
    "collalgo/_kernels/comm/point_to_point/outbox.pyx": {"send"},
    "collalgo/_kernels/comm/point_to_point/peer.pyx": {"read_channel"},
    "collalgo/_kernels/comm/point_to_point/polling.pyx": {"fetch"},
    "collalgo/_kernels/comm/point_to_point/progress.pyx": {"await_message", "idle"},
    "collalgo/_kernels/comm/progress.pyx": {"await_call"},
    "collalgo/_kernels/comm/recorder.pyx": {"enter"},
    "collalgo/_kernels/comm/reducing.pyx": {"reduce_scatter"},
    "collalgo/_kernels/comm/rooted.pyx": {"scatter", "scatterv"},
    "collalgo/_kernels/comm/sharing.pyx": {"alltoallv"},
    "collalgo/_kernels/comm/work.pyx": {"settle"},
    "collalgo/_kernels/cost/columns.pyx": {"columns", "spread"},
    "collalgo/_kernels/cost/loads.pyx": {"largest_sums"},
    "collalgo/_kernels/engine/filling.pyx": {
        "add_message",
        "allocate",
        "fill_pieces",
        "place_borders",
    },
    "collalgo/_kernels/engine/posts.pyx": {"push", "stage"},
    "collalgo/_kernels/engine/steps.pyx": {"pull"},
    "collalgo/_kernels/engine/transport/ucx.pyx": {"test"},
    "collalgo/_kernels/schedule/replay.pyx": {"__cinit__", "in_order"},
}

COMPILED = re.compile(r"( *)(?:cdef|cpdef|def) (?!class |struct |enum )[^=]*?(\w+)\(")


def sources() -> Iterator[Path]:
    for folder in ("collalgo", "bench"):
        for suffix in ("py", "pyx"):
            yield from sorted((ROOT / folder).rglob(f"*.{suffix}"))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[tuple[str, list[str]]]:
    """The functions of a file, with the lines of their bodies."""
    text = path.read_text()
    return python(text) if path.suffix == ".py" else compiled(text)


def python(text: str) -> Iterator[tuple[str, list[str]]]:
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            documented = ast.get_docstring(node) is not None
            first = node.body[0].end_lineno if documented else node.body[0].lineno - 1
            yield node.name, lines[first : node.end_lineno]


def compiled(text: str) -> Iterator[tuple[str, list[str]]]:
    lines = text.splitlines()
    for i, line in enumerate(lines):
        found = COMPILED.match(line)
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


def is_long(body: list[str]) -> bool:
    stripped = [line.strip() for line in body]
    if any(line.startswith("# Long: ") for line in stripped):
        return False
    return sum(bool(x) and not x.startswith("#") for x in stripped) > MOST_CODE


def test_no_file_is_long() -> None:
    lengths = {name_of(p): len(p.read_text().splitlines()) for p in sources()}
    assert len(lengths) > 400
    long = {name: n for name, n in lengths.items() if n > MOST_LINES}
    assert set(long) == LONG_FILES, long


def test_a_long_function_says_why() -> None:
    long: dict[str, set[str]] = {}
    for path in sources():
        for name, body in functions(path):
            if is_long(body):
                long.setdefault(name_of(path), set()).add(name)
    assert long == LONG_FUNCTIONS


@pytest.mark.parametrize("suffix", ["py", "pyx"])
def test_lines_of_code_are_counted_without_comments(
    tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"some.{suffix}"
    for lines, reason, expected in (
        (20, "", False),
        (21, "", True),
        (21, "Long: ", False),
    ):
        body = [
            f'    """Some words."""\n\n    # {reason}the reason',
            *["    x = 1"] * lines,
        ]
        path.write_text("\n".join(["def f(", "    a,", "):", *body, "", "y = 2"]))
        assert [(name, is_long(code)) for name, code in functions(path)] == [
            ("f", expected)
        ]
