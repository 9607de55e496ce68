"""The imports of every module of the package, read as text: Python and Cython."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.support.paths import ROOT

#: An import statement of Cython.
CYTHON = re.compile(
    r"^[ \t]*from[ \t]+([\w.]+)[ \t]+c?import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE
)


class Import(NamedTuple):
    """``module`` imports ``name`` from ``source``, which may be a module itself."""

    module: str
    source: str
    name: str


@cache
def modules() -> dict[str, tuple[Path, ...]]:
    """The files of each module of the package, by the module's name."""
    found: dict[str, tuple[Path, ...]] = {}
    for file in sorted((ROOT / "collalgo").rglob("*.p*")):
        if file.suffix in (".py", ".pyx", ".pxd"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = (*found.get(name, ()), file)
    return found


@cache
def imports() -> tuple[Import, ...]:
    """Every import of the package from itself, also inside functions."""
    return tuple(
        each
        for module, files in modules().items()
        for file in files
        for each in (_python if file.suffix == ".py" else _cython)(module, file)
        if each.source.partition(".")[0] == "collalgo"
    )


def edges() -> set[tuple[str, str]]:
    """Which module imports which other, the public face left out."""
    found = set()
    for module, source, name in imports():
        inner = f"{source}.{name}"
        target = inner if inner in modules() else source
        if "collalgo" not in (module, target) and module != target:
            found.add((module, target))
    return found


def _python(module: str, file: Path) -> Iterator[Import]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{file} has a relative import"
            for alias in node.names:
                source = (node.module or "").removeprefix("cython.cimports.")
                yield Import(module, source, alias.name)


def _cython(module: str, file: Path) -> Iterator[Import]:
    for source, names in CYTHON.findall(file.read_text()):
        for name in re.sub(r"#.*|[()]", "", names).split(","):
            if name.strip():
                yield Import(module, source, name.split()[0])
