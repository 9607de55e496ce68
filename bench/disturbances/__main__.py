"""The command: a table of medians and percentiles."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
from collalgo.bench.disturbances.events import Times, agent, leader, pause
from collalgo.bench.disturbances.partitions import three_against_two, two_against_two

#: What this command does.
ABOUT = "Time what elastic jobs need after a disturbance."

#: The events, and the measurements of each.
EVENTS: dict[str, tuple[str, ...]] = {
    "agent": ("kill -9 of an agent: its 4 ranks have ended",),
    "pause": ("SIGSTOP: the others continue", "SIGCONT: it is a member again"),
    "leader": ("etcd's leader killed: the next round is complete",),
    "partition": ("3 against 2: the 3 continue", "healed: all 5 are back"),
    "halves": ("2 against 2: one half continues", "healed: all 4 are back"),
}


def main() -> None:
    """Print a table of the events that are named."""
    given = _given()
    options = given.etcd.split()
    makers: dict[str, Callable[[], Iterator[Times]]] = {
        "agent": agent,
        "pause": lambda: pause(given.pause),
        "leader": lambda: leader(options),
        "partition": lambda: three_against_two(options),
        "halves": lambda: two_against_two(options),
    }
    print(f"ms in {given.trials} trials; less is better")
    for event in given.events:
        with closing(makers[event]()) as trials:  # type: ignore[type-var]
            found = [next(trials) for _ in range(given.trials)]
        for name, times in zip(EVENTS[event], np.array(found).T * 1e3, strict=True):
            p50, p99 = np.percentile(times, [50, 99])
            print(f"{name:<50} p50 {p50:7.0f}  p99 {p99:7.0f}  most {times.max():7.0f}")


def _given() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=ABOUT)
    parser.add_argument("events", nargs="+", choices=list(EVENTS))
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--pause", type=float, default=30.0, help="seconds of a pause")
    parser.add_argument("--etcd", default="", help="options of etcd: '--pre-vote'")
    return parser.parse_args()


if __name__ == "__main__":
    main()
