"""The command ``collalgo calibrate``."""

from collections.abc import Iterator

import click
from collalgo.bench.corrections import carried_over, measure_ratios

from collalgo.base.console import patience
from collalgo.base.units import counted, human_time
from collalgo.cost.corrections import Corrections, Ratio, keep, known, summary
from collalgo.cost.host_profile import (
    HostProfile,
    calibrate,
    host_profile,
    kept_profile,
    kept_spread,
    profile_file,
)


@click.command("calibrate")
@click.option(
    "--show",
    is_flag=True,
    help="Print the cached results; measure only if the cache has no profile.",
)
@click.option(
    "--quick",
    is_flag=True,
    help="Measure no collectives, whose times correct the prices. Takes seconds.",
)
def calibrate_command(show: bool, quick: bool) -> None:
    """Measure this machine, for prices.

    First messages, copies and reductions, of which prices are made; then collectives
    on 2 ranks and on as many as the machine has cores, twice and four times as many,
    256 at most: their measured over predicted times correct the prices. Takes a minute
    or two on two cores, longer on more; the results are cached, those of collectives
    after each number of ranks. "within 4%" is the difference between two halves of the
    measurements; the spread is the range of the middle half.
    """
    with patience("measuring this machine"):
        before = kept_profile()
        profile = host_profile() if show else calibrate()
    is_kept = kept_profile() == profile
    if is_kept and not (show or quick):
        _measure_collectives(before, profile)
    _echo(profile, is_kept)
    for line in _corrections(known(profile)):
        click.echo(line)
    if is_kept:
        click.echo(f"saved to {profile_file()}")
    else:
        click.echo(
            f"not saved to {profile_file()}: the file is not writable, or the machine "
            "is too busy to be measured and these are typical values"
        )


def _measure_collectives(before: HostProfile | None, profile: HostProfile) -> None:
    """Keep the measured over the predicted times of collectives, as they are found."""
    found: list[Ratio] = []
    with patience("measuring collectives") as tell:
        for some in measure_ratios(
            profile, lambda part: tell(f"measuring collectives: {part:.0%}")
        ):
            found += some
            earlier = carried_over(before, profile, found) if before else []
            keep(profile, found + earlier)


def _echo(profile: HostProfile, is_kept: bool) -> None:
    """Print the values of a profile, with their spreads."""
    spreads = kept_spread() if is_kept else {}
    rows = _profile_rows(profile)
    width = max(len(label) for label, *_ in rows)
    for label, value, name in rows:
        found = f"  within {max(spreads[name], 0.01):.0%}" if name in spreads else ""
        click.echo(f"{label:{width}}  {value:9}{found}".rstrip())


def _corrections(found: Corrections) -> Iterator[str]:
    """The lines on the measured collectives."""
    if not found.ratios:
        yield "no collectives measured: collalgo calibrate (without --quick) does"
    for one in summary(found.ratios):
        apart = f" at a handoff of {human_time(one.distance)}" if one.distance else ""
        yield (
            f"collectives of {counted(one.ranks, 'rank')}{apart}: measured "
            f"{one.least:.2f} to {one.most:.2f} times the price by the profile (median "
            f"spread {one.spread:.0%})"
        )


def _profile_rows(known: HostProfile) -> list[tuple[str, str, str]]:
    """The labels of a profile, its values, and the names of these in it."""
    copy = max(known.copy_far, known.copy)
    reduce = max(known.reduce_far, known.reduce)
    rows = [
        ("core-to-core handoff", human_time(known.latency), "latency"),
        ("handoff between ranks of one core", human_time(known.switch), "switch"),
        ("each further message of a rank", human_time(known.message), "message"),
        ("copy, per core", _speed(known.copy), "copy"),
        ("reduction, per core", _speed(known.reduce), "reduce"),
        ("copy beyond the caches", _speed(copy), "copy_far"),
        ("reduction beyond the caches", _speed(reduce), "reduce_far"),
        ("cores", str(known.cores), "cores"),
    ]
    if known.exchange and known.fetch:
        rows += [
            ("exchange through shared memory", _speed(known.exchange), "exchange"),
            ("exchange by the kernel", _speed(known.fetch), "fetch"),
        ]
    return rows


def _speed(seconds: float) -> str:
    """The speed at which a byte takes these seconds."""
    return f"{1e-9 / seconds:.1f} GB/s"
