"""``from mpi4py import MPI`` over the engine of the library, for programs unchanged.

``collalgo run --as-mpi4py`` puts the folder ``path`` in front of the module path of its
ranks; ``from collalgo.integrations.as_mpi4py import MPI`` gives the same module. No MPI
is loaded. What is missing raises NotImplementedError in one sentence.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

#: The folder with the package ``mpi4py``.
FOLDER = Path(__file__).parent / "path"


def put_in_front(environment: MutableMapping[str, str]) -> None:
    """Let programs that get an environment import ``mpi4py`` from here."""
    paths = (str(FOLDER), environment.get("PYTHONPATH", ""))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
