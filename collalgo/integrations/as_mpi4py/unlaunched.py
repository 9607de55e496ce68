"""Programs of mpi4py whose ranks no launcher of MPI starts.

Each process of them is a world of one, which makes no error: the program runs as often
as there are ranks.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

#: The imports of a program, and the packages among them that matter.
IMPORT = re.compile(rb"^[ \t]*(?:from|import)[ \t]+(mpi4py|collalgo)\b", re.MULTILINE)


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
    if size < 2 or script is None or set(_imports(script)) != {b"mpi4py"}:
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


def _imports(script: Path) -> list[bytes]:
    """The packages that matter among those that a file imports."""
    try:
        return IMPORT.findall(script.read_bytes())
    except OSError:
        return []  # which the ranks say
