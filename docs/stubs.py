"""The types of the collectives as methods, derived from the functions.

``make docs`` writes ``collalgo/comm/collectives.pyi``: type checkers cannot see how a
function becomes a method.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import collalgo
from collalgo.comm.collectives import Collectives
from docs.pages import GENERATED, write_page

FUNCTIONS = Path(collalgo.__file__).parent / "comm" / "functions"

OBJECTS = FUNCTIONS.parent / "objects.py"

STUB = Path(collalgo.__file__).parent / "comm" / "collectives.pyi"

HEAD = f"""# {GENERATED} from the functions of collalgo/comm; a test compares it.
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

from collalgo._kernels.comm.persistent import Persistent
from collalgo._kernels.comm.work import Work
from collalgo.comm.types import Array, ArrayLike, CountsLike, OpLike, Tree
from collalgo.engine.call import AlgorithmChoice, Reproducible

class Collectives:
"""


def stub() -> str:
    """The text of the stub."""
    declared = _declarations()
    return HEAD + "".join(
        _method(name, declared)
        for name in vars(Collectives)
        if not name.startswith("__")
    )


def _declarations() -> dict[str, ast.FunctionDef]:
    """The declarations of the functions, by name."""
    return {
        node.name: node
        for file in (*sorted(FUNCTIONS.glob("*.py")), OBJECTS)
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef)
    }


def _method(name: str, declared: dict[str, ast.FunctionDef]) -> str:
    """The declaration of a method in any of its forms."""
    base = name.removesuffix("_async").removeprefix("persistent_")
    found = declared[base]
    result = ast.unparse(found.returns) if found.returns else "None"
    if name != base:
        result = "Work" if name.endswith("_async") else "Persistent"
    lines = ",\n        ".join(["self", *_parameters(found.args)])
    return f"    def {name}(\n        {lines},\n    ) -> {result}: ...\n"


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    """The parameters of a function but its communicator, as they are written."""
    positional = arguments.args
    missing = len(positional) - len(arguments.defaults)
    defaults = [None] * missing + arguments.defaults
    yield from _written(positional, defaults)
    if arguments.kwonlyargs:
        yield "*"
    yield from _written(arguments.kwonlyargs, arguments.kw_defaults)


def _written(
    parameters: list[ast.arg], defaults: list[ast.expr | None]
) -> Iterator[str]:
    for parameter, default in zip(parameters, defaults, strict=True):
        if parameter.arg != "comm":
            value = "" if default is None else f" = {ast.unparse(default)}"
            yield (ast.unparse(parameter) + value).replace("'", '"')


def write() -> None:
    """Write the stub."""
    write_page(STUB, stub())
