"""Mutated files of every kind that users give: no crash, no hang, no flood.

A file may be read, or refused by an error of the library, and nothing else, within
seconds and a bound on memory. Run ``python -m tests.support.fuzz --seconds 3600`` for
as long as you like. Seeds are the small files of the tests and, where they are at hand,
the real topologies of ``../shared/topologies``.
"""

import faulthandler
import random
import resource
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import click
from click.testing import CliRunner
from rich.console import Console

from collalgo.cli.main import main as collalgo_command
from collalgo.cost.link_model import LinkModel
from collalgo.errors import CollalgoError
from collalgo.integrations.msccl import msccl
from collalgo.integrations.mscclpp import row as mscclpp
from collalgo.launch.hosts import assign_ranks, parse_hosts, read_hostfile
from collalgo.selection.rules import Rules
from collalgo.topology import document, show
from collalgo.topology.readers import parse
from tests.support.mutation import mutated
from tests.support.shared_files import FOLDER, files
from tests.support.small_files import SMALL

#: What one file may take: processor seconds, and MiB of address space for all.
SECONDS, MEBIBYTES = 20.0, 4096

#: Of topologies with more devices no command is run, as many take their time.
FEW = 64

#: The commands that take a topology file as their last word.
COMMANDS = (
    ["topo", "show"],
    ["topo", "show", "--matrix"],
    ["topo", "validate"],
    ["topo", "convert"],
    ["bound", "allreduce"],
    ["bound", "broadcast"],
    ["simulate", "allreduce", "ring"],
    ["simulate", "broadcast", "binomial"],
    ["select", "alltoall", "--size", "64K", "--topology"],
)

RULES = """collalgo: rules/1
name: mine
blocks: [alltoall]
rules:
  allreduce:
    - {ranks: 2..7, sizes: {0: one_shot, 4096: ring(segments=4)}}
    - {ranks: 8.., power_of_two: true, sizes: {0: halving_doubling}}
  alltoall: [{sizes: {0: pairwise}}]
"""

FIGURES = """collalgo: figures/1
latency: {NVL: 1.0e-06, NET: 5.0e-06}
message: 3.0e-07
efficiency: {nvlink: 0.8}
"""

HOSTS = "# mine\na slots=4\nuser@b.example:2 # a comment\n\nc\n"
HOST_LIST = "a:4,user@b.example:2,c"


class Subject(NamedTuple):
    """A kind of file: texts to begin with, and what reads one."""

    seeds: list[str]
    read: Callable[[str], object]


def read_topology(text):
    """Read a topology and show it, write it and read it again."""
    machine = parse(text, "fuzzed")
    if len(machine.devices()) <= FEW:
        Console(file=StringIO()).print(show.tree(machine))
        parse(document.text(machine), "written")


def run_commands(text):
    """Run a command on a file, whatever is in it."""
    with in_file(text) as path:
        if len(parse(text, "fuzzed").devices()) > FEW:
            return
        words = random.Random(text).choice(COMMANDS)
        done = CliRunner().invoke(collalgo_command, [*words, str(path)])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception


def read_hosts(text):
    """Read a file of hosts, or their list, and place ranks on them."""
    with in_file(text) as path:
        hosts = parse_hosts(text) if "," in text else read_hostfile(path)
    assign_ranks(hosts, None)


@contextmanager
def in_file(text):
    """A file with a text, for as long as a block."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        path.write_text(text, errors="replace")
        yield path


def schedule(kind):
    """A schedule in a format of another tool."""
    words = ["algorithms", "export", "ring", "-c", "allgather", "-n", "3"]
    words += ["--format", kind]
    return CliRunner().invoke(collalgo_command, words).output


def reading(read):
    """A function of a text, from one of a path."""

    def of_text(text):
        with in_file(text) as path:
            read(path)

    return of_text


SMALL_TEXTS = [text for text, _, _ in SMALL.values()]

SUBJECTS = {
    **{name: Subject([SMALL[name][0]], read_topology) for name in SMALL},
    "commands": Subject(SMALL_TEXTS, run_commands),
    "rules": Subject([RULES], reading(Rules.read)),
    "figures": Subject([FIGURES], reading(LinkModel.read)),
    "hosts": Subject([HOSTS, HOST_LIST], read_hosts),
    "schedule": Subject([schedule("msccl")], reading(msccl.read)),
    "plan": Subject([schedule("mscclpp")], reading(mscclpp.algorithm_of)),
}


def real_texts():
    """The real topologies, where they are at hand."""
    names = files() if FOLDER.is_dir() else []
    found = [(FOLDER / name).read_bytes() for name in names]
    return [data.decode(errors="replace") for data in found if b"\0" not in data]


def check(subject, text):
    """Whether a text is read; anything but an error of the library is a fault."""
    start = time.process_time()
    faulthandler.dump_traceback_later(5 * SECONDS, exit=True)  # it hangs
    try:
        subject.read(text)
        good = True
    except CollalgoError:
        good = False
    finally:
        faulthandler.cancel_dump_traceback_later()
    took = time.process_time() - start
    if took > SECONDS:
        raise TimeoutError(f"{took:.1f} s")
    return good


def faults(name, count, seed, extra=()):
    """Read some mutated files: how many are read, and a text for each kind of fault."""
    dice, subject = random.Random(f"{name} {seed}"), SUBJECTS[name]
    seeds, others = [*subject.seeds, *extra], [*SMALL_TEXTS, *subject.seeds]
    read, found = 0, {}
    for _ in range(count):
        text = mutated(dice.choice(seeds), others, dice)
        try:
            read += check(subject, text)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            key = f"{type(error).__name__} in {where.filename}:{where.lineno}"
            found.setdefault(f"{key}: {str(error)[:200]}", text)
    return read, found


@click.command()
@click.option("--seconds", default=60.0, help="How long.")
@click.option("--seed", default=0, help="Of the dice.")
@click.option("--keep", default="/tmp", help="Where to write what went wrong.")
def main(seconds, seed, keep):
    """Mutate and read."""
    limit = MEBIBYTES << 20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    until, real = time.monotonic() + seconds, real_texts()
    read, wrong = 0, {}
    while time.monotonic() < until:
        for name, subject in SUBJECTS.items():
            is_topology = subject.read in (read_topology, run_commands)
            some, found = faults(name, 20, seed, real if is_topology else ())
            read += some
            for key in found.keys() - wrong.keys():
                path = Path(keep, f"fault{len(wrong)}.txt")
                path.write_text(found[key], errors="replace")
                click.echo(f"{name}: {key}; see {path}")
                wrong[key] = path
        seed += 1
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    click.echo(f"{read} texts read, {len(wrong)} faults; {peak} MiB")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
