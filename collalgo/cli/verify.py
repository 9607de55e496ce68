"""The command ``collalgo verify``."""

import click

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.verify import MOST_RANKS
from collalgo.base.wrapping import wrapped
from collalgo.cli.algorithm_argument import algorithms_named, prove_roots, sizes_of
from collalgo.cli.on_topology import Ranks, ranks_options
from collalgo.cli.options import collective_option
from collalgo.cli.words import epilog

#: The default numbers of ranks.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)


@click.command("verify", epilog=epilog("steps", "n bytes", "links"))
@click.argument("algorithm", required=False)
@click.option(
    "--all", "everything", is_flag=True, help="Prove every algorithm of the table."
)
@collective_option
@click.option(
    "-n", "--size", "sizes", type=click.IntRange(1, MOST_RANKS), multiple=True,
    show_default=f"{', '.join(map(str, SIZES))}, or that of the file or topology",
    help="Number of ranks; repeatable.",
)  # fmt: skip
@ranks_options
def verify_command(
    algorithm: str | None,
    everything: bool,
    collective: str | None,
    sizes: tuple[int, ...],
    ranks: Ranks,
) -> None:
    """Prove the schedules of an algorithm or of a file.

    ALGORITHM is a name, FILE.py, FILE.py:FUNCTION, FILE.xml or FILE.json. FILE.py
    selects every function decorated with @collalgo.algorithm. FILE.xml is MSCCL
    XML, FILE.json an MSCCL++ execution plan. The name synthesized is for the ranks of
    --topology. With up to 17 ranks every root is proved;
    with more, the first, the middle and the last.
    """
    if everything == (algorithm is not None):
        raise click.UsageError("name an ALGORITHM, or pass --all")
    proved = 0
    for row in algorithms_named(algorithm, collective, ranks):
        for size in sizes or sizes_of(row) or SIZES:
            if isinstance(row, Algorithm) and (obstacle := row.obstacle(size)):
                click.echo(wrapped(f"{row.collective} {row.name}: {obstacle}"))
                continue
            proof = prove_roots(row, collective, size)
            name = f"{row.name}: " if isinstance(row, Algorithm) else ""
            click.echo(wrapped(f"{name}{proof}"))
            proved += 1
    if not proved:
        raise click.ClickException("nothing was proved")
