"""The command ``collalgo verify``."""

import click

from collalgo.algorithms.catalogue import Algorithm
from collalgo.cli.algorithm_argument import algorithms_named, prove_roots, sizes_of
from collalgo.cli.options import collective_option

#: Sizes for which an algorithm is proved by default.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)


@click.command("verify")
@click.argument("algorithm", required=False)
@click.option("--all", "everything", is_flag=True, help="All of the table.")
@collective_option
@click.option("-n", "--size", "sizes", type=click.IntRange(1), multiple=True)
def verify_command(
    algorithm: str | None,
    everything: bool,
    collective: str | None,
    sizes: tuple[int, ...],
) -> None:
    """Prove ALGORITHM: a name of the table, FILE.py, FILE.py:FUNCTION or FILE.xml.

    Of a file all functions are proved that @collalgo.algorithm puts into the table. XML
    is that of MSCCL, and is proved for the ranks that it is for. For each size every
    root is proved up to 17 ranks; without --size, several up to 17.
    """
    if everything == (algorithm is not None):
        raise click.UsageError("name an ALGORITHM, or pass --all")
    proved = 0
    for row in algorithms_named(algorithm, collective):
        for size in sizes or sizes_of(row) or SIZES:
            if isinstance(row, Algorithm) and (obstacle := row.obstacle(size)):
                click.echo(f"{row.collective} {row.name}: {obstacle}")
                continue
            proof = prove_roots(row, collective, size)
            name = f"{row.name}: " if isinstance(row, Algorithm) else ""
            click.echo(f"{name}{proof}")
            proved += 1
    if not proved:
        raise click.ClickException("nothing was proved")
