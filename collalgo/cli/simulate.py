"""The command ``collalgo simulate``."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from collalgo.algorithms.catalogue import Algorithm
from collalgo.base.chrome_trace import TRACE
from collalgo.base.console import patience
from collalgo.base.plotting import PICTURE
from collalgo.base.units import human_time
from collalgo.base.wrapping import wrapped
from collalgo.cli import completing
from collalgo.cli.algorithm_argument import algorithms_named
from collalgo.cli.call_sizes import sizes_of_call
from collalgo.cli.late_option import check_on_time, late_option
from collalgo.cli.loading import load_machine
from collalgo.cli.machine import (
    assume_option,
    assuming,
    faults_options,
    figures_option,
    machine_arguments,
    root_option,
    sizes_option,
)
from collalgo.cli.options import force_option, load_option, writes
from collalgo.cli.words import epilog
from collalgo.cost.exact import exact
from collalgo.cost.link_model import LinkModel
from collalgo.cost.placement import Placement
from collalgo.cost.simulation import MODELS, Simulation, simulate
from collalgo.cost.timeline import Timeline, timeline
from collalgo.cost.uniform_cluster import UniformCluster
from collalgo.errors import CollalgoError, TopologyError
from collalgo.schedule import ScheduleFunction
from collalgo.schedule.collective import COLLECTIVES
from collalgo.synthesis.synthesized import is_name, synthesized
from collalgo.topology import orders
from collalgo.topology.faults import Faults
from collalgo.topology.model import Topology

#: The orders of ranks on the devices.
ORDERS = {"ring": orders.ring_order, "rail": orders.rail_order}

#: Another order of the ranks is named if it takes at most this share of the time.
CHEAPER = 0.95


@click.command(
    "simulate", epilog=epilog("time", "x bound", "bound", "assumed", "rounds, fluid")
)
@click.argument("collective", type=click.Choice(list(COLLECTIVES)))
@click.argument("algorithm", shell_complete=completing.algorithms)
@machine_arguments
@sizes_option
@root_option
@click.option(
    "--order",
    type=click.Choice(list(ORDERS)),
    show_default="that of the topology",
    help="Order of the ranks on the devices.",
)
@click.option(
    "--model",
    type=click.Choice(MODELS),
    default="rounds",
    help="Price model.",
)
@late_option
@click.option(
    "--exact",
    "exactly",
    is_flag=True,
    help="Also compute the exact ratio to the bound.",
)
@click.option(
    "--timeline",
    "picture",
    **writes(PICTURE, json=TRACE),
    help="Write the timeline of all messages: a picture, or as .json a Perfetto trace.",
)
@force_option
@figures_option
@assume_option
@faults_options
@load_option
def simulate_command(
    collective: str,
    algorithm: str,
    what: str,
    parameters: tuple[str, ...],
    sizes: list[int],
    root: int,
    order: str | None,
    model: str,
    late: dict[int, float],
    exactly: bool,
    picture: Path | None,
    force: bool,
    figures: LinkModel,
    assume: dict[str, float],
    faults: Faults,
) -> None:
    """Predict the time of a schedule, and find its bottleneck.

    WHAT and its parameters are those of collalgo topo. ALGORITHM is one of collalgo
    algorithms, a file as of collalgo verify, or synthesized: trees computed for the
    topology.
    """
    sizes = sizes_of_call(collective, sizes, root)
    check_on_time(late, {"--exact": exactly, "--timeline": picture})
    try:
        machine = load_machine(what, parameters, faults)
        schedule = _of_file(algorithm, collective)
        where: dict[str, Any] = {"collective": collective, "root": root}
        how = where | {"model": model, "link_model": assuming(figures, assume)}
        if isinstance(machine, Topology):
            how["order"] = where["order"] = ORDERS[order](machine) if order else None
            schedule = _synthesised(schedule, machine, how)
            if picture:
                _draw(schedule, machine, sizes, how).write(picture, force=force)
        elif order or picture or exactly or model == "fluid":
            raise _priced_by_one_host(machine)
        found = _prices(algorithm, schedule, machine, sizes, how | {"late": late})
        if exactly and isinstance(machine, Topology):
            found.append(str(exact(schedule, machine, **where)))
    except (CollalgoError, ImportError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    click.echo(wrapped("\n".join(found)))


def _prices(
    algorithm: str,
    schedule: str | ScheduleFunction,
    machine: Topology | UniformCluster,
    sizes: list[int],
    how: dict[str, Any],
) -> list[str]:
    """The price for each size, and a cheaper order of the ranks if none was chosen."""
    with patience("pricing"):
        found = [simulate(schedule, machine, nbytes, **how) for nbytes in sizes]
        lines = [str(each) for each in found]
        if isinstance(machine, Topology) and not (how["order"] or is_name(algorithm)):
            lines += _cheaper_order(schedule, machine, found[-1], how)
    return lines


def _cheaper_order(
    schedule: str | ScheduleFunction,
    machine: Topology,
    found: Simulation,
    how: dict[str, Any],
) -> list[str]:
    """The cheapest of the other orders of the ranks, if it saves more than 5 %."""
    prices = {}
    for name, order in ORDERS.items():
        with suppress(TopologyError):  # it may have no such order
            again = {**how, "order": order(machine)}
            prices[name] = simulate(schedule, machine, found.nbytes, **again).seconds
    name = min(prices, key=prices.__getitem__, default="")
    if not name or prices[name] > CHEAPER * found.seconds:
        return []
    time = human_time(prices[name])
    takes = COLLECTIVES[found.collective].sized(f"the {found.collective}", found.nbytes)
    text = f"With --order {name} {takes} takes {time}; these prices are for the order"
    return [f"{text} of the topology."]


def _of_file(algorithm: str, collective: str) -> str | ScheduleFunction:
    """The algorithm of FILE or FILE.py:FUNCTION; or the name itself of another."""
    if not re.search(r"\.(py|xml|json)$|\.py:", algorithm):
        return algorithm
    found = algorithms_named(algorithm, collective)
    if len(found) != 1:
        names = ", ".join(each.name for each in found if isinstance(each, Algorithm))
        raise click.UsageError(
            f"{algorithm} has {len(found)} algorithms of {collective}: {names}; name "
            "one of them, and the file by --load"
        )
    return found[0].name if isinstance(found[0], Algorithm) else found[0]


def _synthesised(
    schedule: str | ScheduleFunction, machine: Topology, how: dict[str, Any]
) -> str | ScheduleFunction:
    """The synthesised schedule of a name, or the schedule itself."""
    if not isinstance(schedule, str):
        return schedule
    placement = Placement(machine, how["order"] or (), how["link_model"])
    return synthesized(how["collective"], schedule, placement) or schedule


def _draw(
    schedule: str | ScheduleFunction,
    machine: Topology,
    sizes: list[int],
    how: dict[str, Any],
) -> Timeline:
    """The timeline of the only size."""
    if len(sizes) > 1:
        raise click.UsageError(
            f"--timeline draws one size, but --size gives {len(sizes)}; give one"
        )
    return timeline(schedule, machine, *sizes, **how)


def _priced_by_one_host(machine: UniformCluster) -> click.UsageError:
    return click.UsageError(
        f"{machine.hosts} hosts are priced by one that represents all; leave out "
        "--order, --timeline, --exact and --model fluid"
    )
