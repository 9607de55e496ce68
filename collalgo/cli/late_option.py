"""The option ``--late`` of commands that price calls with late ranks."""

from collections.abc import Mapping, Sequence

import click


def _parse_late(
    _: click.Context, __: click.Parameter, values: Sequence[str]
) -> dict[int, float]:
    """The seconds of each late rank."""
    found: dict[int, float] = {}
    for text in values:
        word, _equals, seconds = text.partition("=")
        try:
            rank, delay = int(word), float(seconds)
        except ValueError:
            raise click.BadParameter(f"{text!r} is not RANK=SECONDS") from None
        if rank in found:
            raise click.BadParameter(
                f"rank {rank} is given twice: {found[rank]:g} and {delay:g} s"
            )
        found[rank] = delay
    return found


late_option = click.option(
    "--late",
    multiple=True,
    metavar="RANK=SECONDS",
    callback=_parse_late,
    help="Delay of a rank in seconds; time counts from the last arrival. Repeatable.",
)


def check_on_time(late: Mapping[int, float], options: Mapping[str, object]) -> None:
    """Refuse late ranks with an option that has all ranks on time."""
    for option in (name for name, given in options.items() if late and given):
        raise click.UsageError(
            f"{option} has all ranks on time; leave out --late or {option}"
        )
