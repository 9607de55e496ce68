"""The options of the commands that measure sweeps."""

from collections.abc import Callable
from typing import Any

import click
from collalgo.bench.cells import PLACES
from collalgo.bench.records import CSV, RESULTS

from collalgo.base.input_files import special
from collalgo.base.page import PAGE
from collalgo.base.plotting import PICTURE
from collalgo.base.units import sizes_between
from collalgo.cli.options import force_option, parse_size, parse_sizes, writes
from collalgo.engine.dtypes import DTYPES
from collalgo.engine.reduction import OPS
from collalgo.launch.hosts import MAX_SLOTS


def parse_names(
    _context: object, parameter: click.Parameter, text: str
) -> tuple[str, ...]:
    """Parse names separated by commas, or ``all``."""
    known = {"dtypes": DTYPES}.get(str(parameter.name), ())
    names = tuple(known) if text == "all" and known else tuple(text.split(","))
    for name in names:
        if known and name not in known:
            raise click.BadParameter(f"{name!r}: choose from {', '.join(known)}")
    return names


def refuse_special(
    _context: object, _parameter: object, files: tuple[str, ...]
) -> tuple[str, ...]:
    """Refuse what is not a file before the ranks start, which load the files."""
    for file in files:
        if kind := special(file):
            raise click.BadParameter(f"{file} is {kind}; name a file")
    return files


def parse_border(context: object, parameter: object, text: str | None) -> int | None:
    """Parse the smallest or the largest size, if it is given."""
    return None if text is None else parse_size(context, parameter, text)


def check_borders(first: int | None, last: int | None) -> None:
    """Refuse a smallest size above the largest, if both are given."""
    if first is not None and last is not None and first > last:
        raise click.UsageError(f"-b {first} is above -e {last}; give the smaller first")


def sizes_of(options: dict[str, Any]) -> list[int]:
    """The sizes of a sweep: those of a list, or from the smallest to the largest.

    Raises
    ------
    click.UsageError
        If both are given, or the smallest size is above the largest.
    """
    if options["sizes"] is None:
        check_borders(options["first"], options["last"])
        first, last, factor = (
            default if options[name] is None else options[name]
            for name, _, default in BORDERS
        )
        if options["first"] is None:
            first = min(first, last)  # which -e may set below the default
        return sizes_between(first, last, factor)
    for name, option, _ in BORDERS:
        if options[name] is not None:
            raise click.UsageError(f"-s names all sizes; leave out -s, or {option}")
    found: list[int] = options["sizes"]
    return found


def parse_root(_context: object, _parameter: object, text: str) -> int | None:
    """Parse a rank; None for ``all``."""
    if text == "all":
        return None
    if not text.isdecimal():
        raise click.BadParameter(f"{text!r} is not a rank; write a number, or all")
    return int(text)


def split_names(text: str | None) -> tuple[str, ...]:
    """Split names at commas outside of brackets.

    >>> split_names("ring,torus_2d(dims=(2, 3)),bine")
    ('ring', 'torus_2d(dims=(2, 3))', 'bine')
    """
    names, depth = [""], 0
    for letter in text or "":
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            names.append("")
        else:
            names[-1] += letter
    return tuple(filter(None, names))


#: The options of sizes from the smallest to the largest: name, option and default.
BORDERS = (("first", "-b", 8), ("last", "-e", 64 << 20), ("factor", "-f", 2))

#: The options of all sweeps.
SWEEP_OPTIONS = [
    click.option(
        "-s", "--size", "sizes", callback=parse_sizes,
        help="Sizes in bytes: a list 1M,256M or ranges 1K..1G; instead of -b and -e.",
    ),
    click.option(
        "-b", "--from", "first", callback=parse_border,
        show_default="8", help="Smallest size in bytes.",
    ),
    click.option(
        "-e", "--to", "last", callback=parse_border,
        show_default="64M", help="Largest size in bytes.",
    ),
    click.option(
        "-f", "--factor", "factor", type=click.IntRange(2),
        show_default="2", help="Factor between sizes.",
    ),
    click.option(
        "-d", "--dtypes", "dtypes", default="float32", callback=parse_names,
        help="dtypes, separated by commas, or all.",
    ),
    click.option(
        "-o", "--op", "op", default="sum", type=click.Choice([*OPS, "all"]),
        metavar="OP", help=f"Op, or all: {', '.join(OPS)}.",
    ),
    click.option(
        "-r", "--root", "root", default="0", callback=parse_root,
        help="Root rank, or all.",
    ),
    click.option(
        "--calls", "iterations", type=click.IntRange(1),
        show_default="as many as take 0.4 s",
        help="Timed calls in a cycle, not with peers.",
    ),
    click.option(
        "-w", "--warmup", "warmup", type=click.IntRange(0), default=2,
        help="Warm-up calls.",
    ),
    click.option(
        "-N", "--cycles", "cycles", type=click.IntRange(1), default=1,
        help="Cycles of each cell.",
    ),
    click.option(
        "-c", "--check", "check", type=click.IntRange(0, 1), default=1,
        help="Check the results (1) or not (0).",
    ),
    click.option(
        "--fresh", type=click.IntRange(0, 1), default=1,
        help="Write the input before each call (1) or not (0).",
    ),
    click.option(
        "-m", "--in-a-row", "in_a_row", type=click.IntRange(1),
        show_default="1; barriers: 16; sweeps of collectives where no rank can run "
        "ahead: as many as take 100 us",
        help="Consecutive calls in each timing.",
    ),
    click.option(
        "-n", "-R", "--ranks", type=click.IntRange(1, MAX_SLOTS),
        help="Number of ranks to start on this host.",
    ),
    click.option(
        "-l", "--load", "files", multiple=True, type=click.Path(exists=True),
        callback=refuse_special,
        help="Load algorithms: Python with @collalgo.algorithm, MSCCL XML, or an "
        "MSCCL++ plan.",
    ),
    click.option(
        "-J", "--json", "json_file", **writes(RESULTS, by_ranks=True),
        help="Write the rows and the environment as JSON.",
    ),
    click.option(
        "--csv", "csv_file", **writes(CSV, by_ranks=True), help="Write the rows as CSV."
    ),
    click.option(
        "--plot", "plot_file", **writes(PICTURE, by_ranks=True), help="Plot the rows "
        "to this file."
    ),
    click.option(
        "--html", "html_file", **writes(PAGE, by_ranks=True), help="Write a page with "
        "tables and plots to this file, which needs no network."
    ),
    force_option,
]  # fmt: skip


def sweep_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of all sweeps to a command."""
    for option in reversed(SWEEP_OPTIONS):
        command = option(command)
    names = click.Choice([*PLACES, "all"])
    add = click.argument("collectives", nargs=-1, type=names, metavar="[COLLECTIVE]...")
    return add(command)
