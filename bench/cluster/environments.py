"""Races on a cluster that is up, over the MPI of each of some environments."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from collalgo.bench.cluster.kernel import ClusterError
from collalgo.bench.cluster.layout import Layout
from collalgo.bench.cluster.leftovers import guarded_folder
from collalgo.bench.cluster.running import run

from collalgo.base.environment import ENGINE
from collalgo.base.json_files import read_json

#: The seconds that a race in one environment may take.
PATIENCE = 1800


def races_on(
    layout: Layout,
    file: Path,
    environments: Sequence[Path],
    options: Sequence[str],
    first: Sequence[str] = (),
    engine: str | None = None,
) -> Iterator[dict[str, Any]]:
    """The results of a race in each environment, of collalgo and the peers there.

    ``load`` has the average load of the minute before the race.

    Parameters
    ----------
    layout
        The cluster.
    file
        The topology for prices.
    environments
        Environments with collalgo, mpi4py and an MPI. The gloo of torch is measured in
        the first that has it.
    options
        Options of :mod:`collalgo.bench.cluster.race`.
    first
        Further options in the first environment.
    engine
        The engine of collalgo between the hosts; by default the MPI of each
        environment.

    Raises
    ------
    ClusterError
        If a race fails.
    """
    variables = {} if engine is None else {ENGINE.name: engine}
    with_torch = [one for one in environments if _has_torch(one)][:1]
    for number, prefix in enumerate(environments):
        with guarded_folder() as folder:
            output = folder / "race.json"
            words = [str(_python(prefix)), "-m", "collalgo.bench.cluster.race"]
            words += [str(output), *options, *(() if number else first)]
            if prefix in with_torch:
                words += ["--gloo", str(output.with_suffix(".store"))]
            load, *_ = os.getloadavg()
            done = run(
                layout, words, description=file, prefix=prefix, environment=variables,
                capture=True, timeout=PATIENCE,
            )  # fmt: skip
            if done.returncode:
                raise ClusterError(f"a race has failed:\n{done.stdout}{done.stderr}")
            found: dict[str, Any] = read_json(output)
        yield {**found, "load": load}


def _python(prefix: Path) -> Path:
    """The interpreter of an environment."""
    return prefix / "bin" / "python"


def _has_torch(prefix: Path) -> bool:
    """Whether the interpreter of an environment finds torch."""
    words = "import importlib.util as u; exit(not u.find_spec('torch'))"
    return not subprocess.run([_python(prefix), "-c", words], check=False).returncode
