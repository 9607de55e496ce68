"""Measure jobs in which a link is cut in the middle of a call, and which then replan.

The cluster of a file comes up without a fault. Each trial is a job of its own. In one
of its calls this program cuts a link and, some time later, leads the traffic around it,
as a routing protocol of the hosts does. The ranks then pass the rest of the topology to
``comm.replan``.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from collalgo.bench.cluster.comparison import cluster_of
from collalgo.bench.cluster.interrupted_job import BEFORE, CALLING, NBYTES
from collalgo.bench.cluster.kernel import ClusterError, set_link
from collalgo.bench.cluster.layout import Layout
from collalgo.bench.cluster.leftovers import guarded_folder, marked
from collalgo.bench.cluster.rerouting import reroute
from collalgo.bench.cluster.running import agent_of, command_line, variables
from collalgo.bench.records import FOUND, environment, keep, own_command
from collalgo.bench.stopping import exits_when_stopped

from collalgo.base.environment import CACHE
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import FiniteRange, force_option, writes
from collalgo.errors import CollalgoError

#: The seconds that a job may take.
PATIENCE = 200

#: The folders of a cache that have plans; the others have the profile of the host.
PLANS = ("choices", "plans", "proofs")

#: The kinds of trials: the plans after the cut are made then, or kept from before.
KINDS = MADE_THEN, KEPT = "made then", "kept"

#: The trials of each kind, unless others are asked for.
TRIALS = 20


class Trial(NamedTuple):
    """The seconds of the parts of a job in which a link is cut.

    Attributes
    ----------
    whole : float
        A call before the cut.
    cut_after : float
        From the begin of a call to the cut.
    interrupted : float
        From the cut to the end of that call on the last rank; negative if it had ended
        before the cut.
    replan : float
        From there to the end of ``replan``.
    first, second : float
        The first call after it, with its plan, and the second.
    wrong : int
        Wrong elements in the results of all ranks and calls.
    before, after : str
        The algorithms.
    """

    whole: float
    cut_after: float
    interrupted: float
    replan: float
    first: float
    second: float
    wrong: int
    before: str
    after: str

    @classmethod
    def of(cls, cut: float, job: Mapping[str, Any]) -> "Trial":
        """The trial of a job, by the moment of its cut."""
        begins, ends, replanned = job["begins"], job["ends"], job["replanned"]
        starts = [*begins[: BEFORE + 1], replanned, ends[BEFORE + 1]]
        *_, whole, _, first, second = (
            end - start for start, end in zip(starts, ends, strict=False)
        )
        end = ends[BEFORE]
        parts = cut - begins[BEFORE], end - cut, replanned - end, first, second
        return cls(whole, *parts, job["wrong"], job["before"], job["after"])


class Event(NamedTuple):
    """A link that is cut, and the seconds until traffic is led around it."""

    link: str
    convergence: float


def trials(
    layout: Layout, file: Path, event: Event, count: int
) -> Iterator[tuple[str, Trial]]:
    """The kind of each trial of an event, and its times.

    The plans of a job that makes them are kept for the next.
    """
    with guarded_folder() as folder:
        moments = random.Random(count)
        job = partial(_interrupted, layout, file, event, {CACHE.name: str(folder)})
        job(0.5)  # measures the profile of a host
        for kind in KINDS * count:
            if kind == MADE_THEN:
                for name in PLANS:
                    shutil.rmtree(folder / name, ignore_errors=True)
            yield kind, job(moments.uniform(0.2, 0.8))


def _interrupted(
    layout: Layout, file: Path, event: Event, place: Mapping[str, str], part: float
) -> Trial:
    """A job whose call is interrupted when a part of it should be over.

    Raises
    ------
    ClusterError
        If the job fails.
    """
    reroute(layout)
    set_link(layout, event.link, working=True)
    cut = 0.0
    with _started(layout, file, event, place) as lines:
        for line in lines:
            word, _, rest = line.partition(" ")
            if word == CALLING:
                time.sleep(part * float(rest))
                cut = time.monotonic()
                set_link(layout, event.link, working=False)
                time.sleep(event.convergence)
                reroute(layout, [event.link])
            elif line.startswith("{"):
                return Trial.of(cut, json.loads(line))
    raise ClusterError(f"the job on {layout.name} has ended without its times")


@contextmanager
def _started(
    layout: Layout, file: Path, event: Event, place: Mapping[str, str]
) -> Iterator[Iterator[str]]:
    """The lines that a job prints, which is awaited, or ended after an error."""
    script = "collalgo.bench.cluster.interrupted_job"
    words = [sys.executable, "-m", script, layout.cable(event.link).topology_link]
    prefix = Path(sys.prefix) / "bin"
    with agent_of(layout) as agent:
        line = command_line(layout, words, agent, prefix, layout.size)
        limited = ["timeout", str(PATIENCE), *line]
        process = subprocess.Popen(
            limited,
            env=variables(file, place) | marked(agent.parent),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        with process:
            try:
                yield iter(process.stdout)
            except BaseException:
                process.terminate()
                raise


@click.command(context_settings=SETTINGS)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("link")
@click.option(
    "--trials",
    "count",
    type=click.IntRange(1),
    default=TRIALS,
    help="Number of trials of each kind.",
)
@click.option(
    "--convergence",
    type=FiniteRange(0),
    default=0.05,
    help="Seconds from the cut until traffic is led around the link.",
)
@click.option(
    *("-J", "--json", "results"),
    **writes(FOUND),
    help="Write the times and the environment as JSON.",
)
@force_option
def main(
    file: Path, link: str, count: int, convergence: float, results: Path | None,
    force: bool,
) -> None:  # fmt: skip
    """Cut LINK of the cluster of FILE in calls, and measure what follows.

    Half of the trials find the plans of an earlier job in the cache, as of collalgo
    plan --each-failure; the others plan then. The results are written after each trial.
    """
    kinds: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    about = {"cluster": file.stem, "cut": link, "convergence": convergence}
    about |= {"nbytes": NBYTES, "load": os.getloadavg()[0], "command": own_command()}
    try:
        with exits_when_stopped(), cluster_of(file) as (layout, _):
            about["environment"] = environment(layout.size)
            for kind, one in trials(layout, file, Event(link, convergence), count):
                click.echo(f"{kind}: {one}")
                kinds[kind].append(one._asdict())
                if results is not None:
                    keep(results, {**about, "trials": kinds}, force=force)
                    force = True
    except CollalgoError as error:
        raise click.ClickException(str(error)) from None


if __name__ == "__main__":
    main()
