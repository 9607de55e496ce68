"""The option ``--late`` of commands that price calls with late ranks."""

from collections.abc import Mapping, Sequence

import click

from collalgo.base.units import time_in_seconds


def _parse_late(
    _: click.Context, __: click.Parameter, values: Sequence[str]
) -> dict[int, float]:
    """The seconds of each late rank."""
    found: dict[int, float] = {}
    for text in values:
        word, _equals, delay_text = text.partition("=")
        try:
            rank, delay = int(word), time_in_seconds(delay_text)
        except ValueError:
            raise click.BadParameter(
                f"{text!r} is not RANK=TIME; write 5=0.003 or 5=3ms"
            ) from None
        if rank in found:
            raise click.BadParameter(
                f"rank {rank} is given twice: {found[rank]:g} and {delay:g} s"
            )
        found[rank] = delay
    return found


late_option = click.option(
    "--late",
    multiple=True,
    metavar="RANK=TIME",
    callback=_parse_late,
    help="Delay of a rank: 5=0.003 (seconds) or 5=3ms; time counts from the last "
    "arrival. Repeatable.",
)


def check_on_time(late: Mapping[int, float], options: Mapping[str, object]) -> None:
    """Refuse late ranks with an option that has all ranks on time."""
    for option in (name for name, given in options.items() if late and given):
        raise click.UsageError(
            f"{option} has all ranks on time; leave out --late or {option}"
        )
