"""The output of a dry run."""

import click
from rich.table import Table

from collalgo.base.console import wide_console
from collalgo.launch.options import Choice
from collalgo.launch.placement import Placement


def show_placement(placement: Placement, choice: Choice) -> None:
    """Print the placement of the ranks of a job, and the commands."""
    click.echo(f"launcher: {choice}")
    if placement.ranks:
        table = Table("rank", "host", "local rank", "cores", "NIC", box=None)
        for rank in placement.ranks:
            position = rank.position
            local = f"{position.local_rank} of {position.local_size}"
            table.add_row(str(position.rank), rank.host, local, rank.cores, rank.nics)
        wide_console().print(table, highlight=False)
    for line in placement.commands:
        click.echo(line)
