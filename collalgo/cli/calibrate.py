"""The command ``collalgo calibrate``."""

import click

from collalgo.base.units import human_time
from collalgo.cost.host_profile import (
    HostProfile,
    calibrate,
    host_profile,
    kept_profile,
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
    cached.
    """
    profile = host_profile() if show else calibrate()
    rows = _profile_rows(profile)
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        click.echo(f"{name:{width}}  {value}")
    if kept_profile() == profile:
        click.echo(f"saved to {profile_file()}")
    else:
        click.echo(
            f"not saved to {profile_file()}: the file is not writable, or the machine "
            "is too busy to be measured and these are typical values"
        )


def _profile_rows(known: HostProfile) -> list[tuple[str, str]]:
    """The values of a profile with their labels."""
    copy = max(known.copy_far, known.copy)
    reduce = max(known.reduce_far, known.reduce)
    rows = [
        ("core-to-core handoff", human_time(known.latency)),
        ("handoff between ranks of one core", human_time(known.switch)),
        ("each further message of a rank", human_time(known.message)),
        ("copy, per core", f"{1e-9 / known.copy:.1f} GB/s"),
        ("reduction, per core", f"{1e-9 / known.reduce:.1f} GB/s"),
        ("copy beyond the caches", f"{1e-9 / copy:.1f} GB/s"),
        ("reduction beyond the caches", f"{1e-9 / reduce:.1f} GB/s"),
        ("cores", str(known.cores)),
    ]
    if known.exchange and known.fetch:
        rows += [
            ("exchange through shared memory", f"{1e-9 / known.exchange:.1f} GB/s"),
            ("exchange by the kernel", f"{1e-9 / known.fetch:.1f} GB/s"),
        ]
    return rows
