"""Programs of mpi4py whose ranks no launcher of MPI starts.

Each process of them is a world of one, which makes no error: the program runs as often
as there are ranks.
"""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

#: The packages whose imports matter.
PACKAGES = {"mpi4py", "collalgo"}


def advice(line: Sequence[str], size: int) -> str | None:
    """What to do, if the script of a command line imports mpi4py and not this library.

    Parameters
    ----------
    line
        The command line of a rank.
    size
        The number of ranks.
    """
    script = next((path for path in _files(line) if path.is_file()), None)
    if size < 2 or script is None or _imports(script) != {"mpi4py"}:
        return None
    return (
        f"{script} imports mpi4py, and no launcher of MPI starts these {size} ranks: "
        "each is a world of one; add --as-mpi4py, or use --mpi, or mpiexec"
    )


def _files(line: Sequence[str]) -> Iterator[Path]:
    """The files that may be the program of a command line: a script, or a module."""
    for before, word in zip(["", *line], line, strict=False):
        if word.endswith(".py"):
            yield Path(word)
        elif before == "-m":
            module = Path(*word.split("."))
            yield from (module.with_suffix(".py"), module / "__main__.py")


def _imports(script: Path) -> set[str]:
    """The packages that matter among those that a file imports."""
    try:
        nodes = ast.walk(ast.parse(script.read_bytes()))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()  # the ranks report it
    names = (name.partition(".")[0] for node in nodes for name in _modules(node))
    return PACKAGES.intersection(names)


def _modules(node: ast.AST) -> list[str]:
    """The modules that a statement names in an import, without relative ones."""
    match node:
        case ast.Import(names=names):
            return [each.name for each in names]
        case ast.ImportFrom(module=str(module), level=0):
            return [module]
    return []
