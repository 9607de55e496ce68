"""Report the measurements on clusters, as a table and a plot."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeAlias

import click

from collalgo.base import plotting
from collalgo.base.json_files import read_json
from collalgo.base.plotting import PICTURE, new_figure
from collalgo.cli.group import SETTINGS
from collalgo.cli.options import force_option, writes

#: The algorithms in the plot, besides the selected one and the peers.
SHOWN = ("ring", "ring_2d", "torus_2d", "hierarchical")

#: The suffixes of files with other peers on the same cluster.
OTHERS = ("_openmpi", "_gloo")


#: The entries of a race, as objects of JSON.
Entries: TypeAlias = list[dict[str, Any]]


class Outcome(NamedTuple):
    """A collective on a cluster: the median times of all contestants.

    ``peers`` has the seconds of other libraries, ``ours`` those of our algorithms by
    base name.
    """

    cluster: str
    collective: str
    bound: float
    chosen: str
    predicted: dict[str, float]
    ours: dict[str, float]
    peers: dict[str, float]

    @property
    def seconds(self) -> float:
        """The time of the selected algorithm."""
        return self.ours[self.chosen]


def outcomes(files: Sequence[Path]) -> Iterator[Outcome]:
    """The outcomes in some files, merged with those of other peers as they are.

    Those are of other runs, in which the choice may have been another.
    """
    for path in files:
        if path.stem.endswith(OTHERS):
            continue
        own = _entries(path)
        beside = (path.parent / f"{path.stem}{other}.json" for other in OTHERS)
        others = [_entries(file) for file in beside if file.exists()]
        yield from _outcomes(path.stem, [own, *others])


def outcomes_in(document: dict[str, Any]) -> list[Outcome]:
    """The outcomes in the results of a comparison on the cluster of a file."""
    cut = f" without {document['cut']}" if document["cut"] else ""
    first, *others = document["races"]
    races = [first, *([*_scaled(race, first)] for race in others)]
    return list(_outcomes(document["cluster"] + cut, races))


def _scaled(race: Entries, first: Entries) -> Iterator[dict[str, Any]]:
    """The peers of a race, scaled by the times of the choice in it and in the first.

    The ratio to the choice is then that in their own race, as other work may have
    delayed all calls of one race.
    """
    here, there = _choices(first), _choices(race)
    for row in race:
        if not row["predicted"]:
            factor = here[row["collective"]] / there[row["collective"]]
            yield {**row, "seconds": [factor * one for one in row["seconds"]]}


def _choices(race: Entries) -> dict[str, float]:
    """The seconds of the chosen algorithm of each collective."""
    return {row["collective"]: median(row["seconds"]) for row in race if row["chosen"]}


def _outcomes(cluster: str, races: Sequence[Entries]) -> Iterator[Outcome]:
    """The outcome of each collective of the first race; others add their peers."""
    rows, others = races[0], [row for race in races[1:] for row in race]
    for collective in dict.fromkeys(row["collective"] for row in rows):
        mine = [row for row in rows if row["collective"] == collective]
        also = [row for row in others if row["collective"] == collective]
        yield _outcome(cluster, collective, mine, also)


def _entries(path: Path) -> Entries:
    try:
        found: Entries = read_json(path)["entries"]
    except (KeyError, TypeError, ValueError) as error:
        raise click.ClickException(f"{path} holds no results: {error}") from None
    return found


def _outcome(
    cluster: str,
    collective: str,
    rows: Entries,
    others: Entries,
) -> Outcome:
    ours = [row for row in rows if row["predicted"]]
    peers: dict[str, float] = {}
    for row in (*rows, *others):
        if not row["predicted"]:  # a peer; the first of several files counts
            name = row["algorithm"].partition(" of ")[0]  # gloo of torch
            peers.setdefault(name, median(row["seconds"]))

    def plain(row: dict[str, Any]) -> str:
        name: str = row["algorithm"].partition("(")[0]
        return name

    return Outcome(
        cluster,
        collective,
        rows[0]["bound"],
        next(plain(row) for row in ours if row["chosen"]),
        {plain(row): row["predicted"] for row in ours},
        {plain(row): median(row["seconds"]) for row in ours},
        peers,
    )


def table(found: Sequence[Outcome]) -> Iterator[str]:
    """The lines of a Markdown table."""
    yield (
        "| cluster | collective | chosen | seconds | x bound | x best of ours "
        "| price error | peers |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for one in found:
        best = min(one.ours.values())
        error = one.predicted[one.chosen] / one.seconds - 1
        peers = ", ".join(
            f"{name} x {seconds / one.seconds:.2f}"
            for name, seconds in one.peers.items()
        )
        yield (
            f"| {one.cluster} | {one.collective} | {one.chosen} | {one.seconds:.2f} "
            f"| {one.seconds / one.bound:.2f} | {one.seconds / best:.2f} "
            f"| {100 * error:+.0f} % | {peers} |"
        )


def errors(found: Sequence[Outcome]) -> list[float]:
    """The relative error of each price."""
    return [
        abs(one.predicted[name] / seconds - 1)
        for one in found
        for name, seconds in one.ours.items()
    ]


def draw(found: Sequence[Outcome], path: Path, *, force: bool = False) -> None:
    """Plot bars of allreduce over the bound, a group for each cluster."""
    shown = [one for one in found if one.collective == "allreduce"]
    figure = new_figure(9, 3.6)
    axes = figure.subplots()
    width = _bars(axes, shown)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks([k + 0.4 - width / 2 for k in range(len(shown))])
    axes.set_xticklabels([one.cluster for one in shown])
    axes.set_ylabel("time over the lower bound")
    axes.set_title("allreduce of 16 MiB on emulated clusters")
    axes.legend(fontsize=7, ncols=2, loc="upper left")
    plotting.save(figure, path, force=force, dpi=120)


def _bars(axes: Any, shown: Sequence[Outcome]) -> float:
    """Draw the bars of all contestants of each cluster, and return their width."""
    peers = list(dict.fromkeys(name for one in shown for name in one.peers))
    names = [*SHOWN, "chosen", *peers]
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        heights = [
            (one.seconds if name == "chosen" else (one.ours | one.peers).get(name, 0.0))
            / one.bound
            for one in shown
        ]
        places = [k + i * width for k in range(len(shown))]
        label = name if name != "chosen" else "chosen by price"
        axes.bar(places, heights, width, label=label, hatch="//" * (name in peers))
    return width


@click.command(context_settings=SETTINGS)
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("-o", "picture", **writes(PICTURE), help="Also plot allreduce to a file.")
@force_option
def main(files: tuple[Path, ...], picture: Path | None, force: bool) -> None:
    """Report the measurements of FILES as a Markdown table."""
    found = list(outcomes(files))
    for line in table(found):
        click.echo(line)
    off = errors(found)
    click.echo(f"\nprices are off by {100 * median(off):.1f} % in the median")
    if picture is not None:
        draw(found, picture, force=force)


if __name__ == "__main__":
    main()
