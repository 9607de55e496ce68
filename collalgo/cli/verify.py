"""The command ``collalgo verify``."""

import click

from collalgo.algorithms.catalogue import Algorithm
from collalgo.algorithms.first_use import PROVED
from collalgo.algorithms.verify import MOST_RANKS
from collalgo.base.console import patience
from collalgo.base.wrapping import wrapped
from collalgo.cli import completing
from collalgo.cli.algorithm_argument import algorithms_named, prove_roots, sizes_of
from collalgo.cli.on_topology import Ranks, ranks_options
from collalgo.cli.options import collective_option
from collalgo.cli.words import epilog
from collalgo.schedule.collective import COLLECTIVES
from collalgo.selection.applicability import is_right_in_its_order

#: The remark on a schedule that takes positions for ranks.
IN_ONE_ORDER = (
    "right in the order of the ranks only; pass group.peer(position) to send and recv, "
    "so that it can be chosen in the best order of a topology, too"
)

#: The default numbers of ranks.
SIZES = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17)


@click.command("verify", epilog=epilog("steps", "n bytes", "links", "chunk 2 of 4"))
@click.argument("algorithm", required=False, shell_complete=completing.algorithms)
@click.option(
    "--all", "everything", is_flag=True, help="Prove every algorithm of the table."
)
@collective_option
@click.option(
    "-n", "--ranks", "sizes", type=click.IntRange(1, MOST_RANKS), multiple=True,
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
    with patience("reading the schedules"):
        rows = algorithms_named(algorithm, collective, ranks)
    for row in rows:
        wanted = sizes or sizes_of(row) or SIZES
        for size in wanted:
            if isinstance(row, Algorithm) and (obstacle := row.obstacle(size)):
                click.echo(wrapped(f"{row.collective} {row.name}: {obstacle}"))
                continue
            with patience(f"proving for {size} ranks"):
                proof = prove_roots(row, collective, size)
            name = f"{row.name}: " if isinstance(row, Algorithm) else ""
            click.echo(wrapped(f"{name}{proof}"))
            proved += 1
        if isinstance(row, Algorithm) and _takes_positions_for_ranks(row, max(wanted)):
            click.echo(wrapped(f"{row.name}: {IN_ONE_ORDER}"))
    if not proved:
        raise click.ClickException("nothing was proved")


def _takes_positions_for_ranks(row: Algorithm, size: int) -> bool:
    """Whether a schedule of a user is wrong if its ranks have another order."""
    kind = COLLECTIVES[row.collective]
    if row.of_library or kind.rooted or kind.prefix or not 1 < size <= PROVED:
        return False
    ordered = row.with_parameters({"order": tuple(reversed(range(size)))})
    if row.obstacle(size) or ordered.obstacle(size):
        return False
    return not is_right_in_its_order(ordered, size)
