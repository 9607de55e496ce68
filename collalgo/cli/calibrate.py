"""The command ``collalgo calibrate``."""

import click

from collalgo.base.console import patience
from collalgo.base.units import human_time
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
    help="Print the cached profile; measure only if the cache has no profile.",
)
def calibrate_command(show: bool) -> None:
    """Measure messages, copies and reductions on this machine.

    The measurement takes a few seconds; prices are computed from its results, which are
    cached. "within 4%" is the difference between two halves of the measurements.
    """
    with patience("measuring this machine"):
        profile = host_profile() if show else calibrate()
    is_kept = kept_profile() == profile
    spreads = kept_spread() if is_kept else {}
    rows = _profile_rows(profile)
    width = max(len(label) for label, *_ in rows)
    for label, value, name in rows:
        known = f"  within {max(spreads[name], 0.01):.0%}" if name in spreads else ""
        click.echo(f"{label:{width}}  {value:9}{known}".rstrip())
    if is_kept:
        click.echo(f"saved to {profile_file()}")
    else:
        click.echo(
            f"not saved to {profile_file()}: the file is not writable, or the machine "
            "is too busy to be measured and these are typical values"
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
