"""``python -m collalgo.bench.over_bounds``: compare prices with bounds on machines."""

from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import click
from collalgo.bench.over_bounds.machines import FILES, GROUPS, NamedMachine, of_files
from collalgo.bench.over_bounds.measuring import NBYTES, figures_of
from collalgo.bench.records import keep

from collalgo.base.json_files import read_json

#: The seconds after which what was found so far is written.
INTERVAL = 5.0


@click.command()
@click.argument("groups", nargs=-1, type=click.Choice([*GROUPS, FILES]))
@click.option(
    "--folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=f"Folder with the topology files of the group {FILES}.",
)
@click.option(
    "--output",
    default=Path("bench/results/over_bounds"),
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results, one file for each group.",
)
def main(groups: tuple[str, ...], folder: Path | None, output: Path) -> None:
    """Compare the prices of 1 GiB with the bounds, for GROUPS of machines or all.

    Machines whose prices the results have are left out: delete a file to begin again.
    """
    if folder is None and FILES in groups:
        raise click.UsageError(f"the group {FILES} needs --folder")
    every = [*GROUPS, *[FILES] * (folder is not None)]
    for group in groups or every:
        machines = of_files(folder) if folder and group == FILES else GROUPS[group]()
        _complete(output / f"{group}.json", [*machines])


def _complete(file: Path, machines: Sequence[NamedMachine]) -> None:
    """Add what a file of results does not have yet."""
    found: dict[str, Any] = read_json(file)["machines"] if file.exists() else {}
    file.parent.mkdir(parents=True, exist_ok=True)
    results = {"nbytes": NBYTES, "of": len(machines), "machines": found}
    written = monotonic()
    for machine in machines:
        if "cells" in found.get(machine.name, {}):
            continue
        found[machine.name] = figures_of(machine)
        if monotonic() - written > INTERVAL:
            keep(file, results, force=True)
            written = monotonic()
    keep(file, results, force=True)


if __name__ == "__main__":
    main()
