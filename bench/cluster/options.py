"""Options of the commands that compare on clusters."""

from pathlib import Path

import click
from collalgo.bench.cluster.race import COLLECTIVES
from collalgo.bench.records import FOUND

from collalgo.cli.options import parse_size, writes


def parse_rates(_context: object, _parameter: object, text: str) -> list[float]:
    """The link rates of an option, in Gbit/s; ``inf`` means unlimited."""
    try:
        rates = [float(word) for word in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r}: write rates, as 1,10,inf") from None
    if any(not rate > 0 for rate in rates):
        raise click.BadParameter(f"{text!r}: a rate must be above 0")
    return rates


def parse_one_size(context: object, parameter: object, text: str) -> int:
    """The size of an option in bytes, which has a bound above 0."""
    nbytes = parse_size(context, parameter, text)
    if not nbytes:
        raise click.BadParameter("a buffer of 0 bytes has no bound; pass 1 or more")
    return nbytes


def _check_environments(
    _context: object, _parameter: object, places: tuple[Path, ...]
) -> tuple[Path, ...]:
    """Refuse folders without a Python and an mpiexec before the cluster is made."""
    for place in places:
        for program in ("python", "mpiexec"):
            if not (place / "bin" / program).exists():
                raise click.BadParameter(
                    f"{place} has no bin/{program}; name an environment with collalgo, "
                    "mpi4py and an MPI"
                )
    return places


def _only_one(
    _context: object, _parameter: object, links: tuple[str, ...]
) -> str | None:
    """The link of an option, which may not be repeated."""
    if len(links) > 1:
        raise click.BadParameter(
            f"{len(links)} links are given ({', '.join(links)}); name one"
        )
    return links[0] if links else None


cut_option = click.option(
    "--cut",
    metavar="LINK",
    multiple=True,
    callback=_only_one,
    help="Cut this link first, named by a NIC or both ends, and lead traffic around.",
)

collectives_option = click.option(
    "-c",
    "collectives",
    multiple=True,
    type=click.Choice(COLLECTIVES),
    default=COLLECTIVES,
    help="Collective to compare; may be repeated.",
)

environments_option = click.option(
    "--mpi",
    "environments",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    callback=_check_environments,
    show_default="that of this Python",
    help="Environment with collalgo, mpi4py and an MPI, also torch for gloo.",
)

results_option = click.option(
    *("-J", "--json", "results"),
    **writes(FOUND),
    help="Write the times and the environment as JSON.",
)
