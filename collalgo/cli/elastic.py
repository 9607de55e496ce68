"""The command ``collalgo elastic``: inspect and change an elastic job."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from collalgo.base.console import wide_console
from collalgo.base.plotting import PICTURE
from collalgo.base.units import counted
from collalgo.base.wrapping import wrapped
from collalgo.bootstrap.store.job_keys import CLOSED
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.cli import unnamed_job
from collalgo.cli.options import force_option, writes
from collalgo.elastic import exclusion
from collalgo.elastic.backends import store_at
from collalgo.elastic.history import history
from collalgo.elastic.jobs_here import JobHere, jobs_here
from collalgo.elastic.status import Event, Status, event_of_epoch, follow, status
from collalgo.elastic.timeline import EventsError, draw, read_events
from collalgo.errors import CollalgoError
from collalgo.launch.process import command_line

#: Seconds between two checks whether a followed job has ended.
POLL_SECONDS = 0.2

_JOB = (
    click.option(
        "--rendezvous",
        metavar="URL",
        show_default="that of the members on this host",
        help="Store of the job: etcd://HOST:PORT, HOST:PORT or file:///FOLDER.",
    ),
    click.option(
        "--id",
        "job",
        show_default="job; without --rendezvous that of the members on this host",
        help="Id of the job.",
    ),
    click.argument("process", type=click.IntRange(1), required=False, metavar="[PID]"),
)


def _of_job(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options and the argument that name a job; pass its store."""

    @wraps(command)
    def with_store(
        *words: Any,
        rendezvous: str | None,
        job: str | None,
        process: int | None,
        **options: Any,
    ) -> None:
        with _store(rendezvous, job, process) as store:
            command(*words, store=store, **options)

    added: Callable[..., None] = with_store
    for option in reversed(_JOB):
        added = option(added)
    return added


@contextmanager
def _store(
    url: str | None, job: str | None, process: int | None
) -> Iterator[KeyValueStore]:
    """The store of a job: the one that is named, or that of a member on this host."""
    if url and process:
        raise click.UsageError("pass PID or --rendezvous, not both")
    secret = None
    try:
        if url is None:
            url, job, secret, _ = _job_here(job, process)
        with closing(store_at(url, job or "job", secret)) as store:
            yield store
    except (CollalgoError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def _job_here(job: str | None, process: int | None) -> JobHere:
    """The job of this folder, or that of an id or under a process if given."""
    found = [each for each in jobs_here(process) if job in (None, each.job)]
    if not found:
        which = "" if job is None else f" {job!r}"
        where = "on this host" if process is None else f"in process {process}"
        raise click.ClickException(
            f"no elastic job{which} has members {where}; start one (collalgo run "
            "--min), or pass --rendezvous and --id"
        )
    if process is None and (job is None or len(found) > 1):
        known = {each.process: f"--id {each.job}, {each.url}" for each in found}
        chosen = unnamed_job.choose(known)
        return next(each for each in found if each.process == chosen)
    if len(found) > 1:
        raise _several(found)
    return found[0]


def _several(found: Sequence[JobHere]) -> click.ClickException:
    """The error of several jobs under a process."""
    listed = "\n".join(
        f"  {e.process}: {command_line(e.process)} (--id {e.job}, {e.url})"
        for e in found
    )
    return click.ClickException(
        f"{len(found)} elastic jobs have members under this process; name one by the "
        f"process id of its launcher or of a rank:\n{listed}"
    )


@click.group("elastic")
def main() -> None:
    """Inspect and change an elastic job.

    PID is the process id of its launcher or of a rank. It may be omitted if a
    single elastic job was started in this folder.
    """


@main.command("status")
@_of_job
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON.")
def status_command(store: KeyValueStore, as_json: bool) -> None:
    """Show the members of a job, waiting processes, and its last failures.

    A member keeps its name: that of its node or, under collalgo run -n, of the worker
    (rank 3). Its rank is its place among the present members. An epoch is the time
    between two changes of the members.
    """
    found = status(store)
    if as_json:
        click.echo(json.dumps(asdict(found)))
        return
    for line in _epoch(found):
        click.echo(wrapped(line))
    if found.members:
        wide_console().print(_table(found))
    for line in _rest(found):
        click.echo(wrapped(line))


def _epoch(found: Status) -> Iterator[str]:
    """The epoch of a job, and its reason."""
    closed = "" if found.closed is None else f"; closed: {found.closed}"
    yield f"epoch {found.epoch} with {counted(len(found.members), 'member')}{closed}"
    if found.why:
        yield f"reason of the epoch: {found.why}"


def _table(found: Status) -> Table:
    """The members of an epoch."""
    table = Table(box=None, pad_edge=False)
    table.add_column("rank", justify="right")
    for name in ("member", "process", "state"):
        table.add_column(name)
    members = zip(found.members, found.processes, strict=True)
    for rank, (name, process) in enumerate(members):
        table.add_row(str(rank), escape(name), escape(process), found.state(name))
    return table


def _rest(found: Status) -> Iterator[str]:
    """The processes that are no members, the leader, and the last failures."""
    if found.waiting:
        yield f"waiting to join: {', '.join(found.waiting)}"
    yield f"leader, which completes the rounds: {found.leader or 'none'}"
    for name, reason in found.excluded.items():
        yield f"excluded: {name} ({reason})"
    for past in found.failures:
        event = event_of_epoch(past)
        yield f"failure before epoch {past.epoch}, {event['time']}: {past.why}"


@main.command("events")
@_of_job
@click.option("--follow", "goes_on", is_flag=True, help="Continue until the job ends.")
def events_command(store: KeyValueStore, goes_on: bool) -> None:
    """Print the events of a job, each a line of JSON.

    Without --follow, print only the last epochs.
    """
    if goes_on:
        _follow(store)
    else:
        for past in history(store):
            _print(event_of_epoch(past))


def _print(event: Event) -> None:
    click.echo(json.dumps(event))


def _follow(store: KeyValueStore) -> None:
    """Print the events of a job until it is closed or its store has ended.

    Raises
    ------
    OSError
        If they cannot be printed, as a pipe was closed.
    """
    is_over: list[OSError | None] = []

    def tell(event: Event) -> None:
        try:
            _print(event)
        except OSError as error:
            is_over.append(error)
        if event["event"] == "closed":
            is_over.append(None)

    follow(store, tell)
    try:
        while not is_over:
            time.sleep(POLL_SECONDS)
            store.read(CLOSED)
    except CollalgoError:
        pass  # the job has ended with its store
    if is_over and is_over[0] is not None:
        raise is_over[0]


@main.command("timeline")
@click.argument("events", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-o", "output", required=True, help="Picture to write.", **writes(PICTURE)
)
@force_option
def timeline_command(events: Path, output: Path, force: bool) -> None:
    """Plot the members of a job over time from EVENTS.

    EVENTS is a file with the output of collalgo elastic events.
    """
    try:
        draw(read_events(events), output, force=force)
    except EventsError as error:
        raise click.ClickException(str(error)) from None


@main.command("exclude")
@click.argument("name")
@_of_job
@click.option("--reason", default="by hand", help="Reason, shown to the member.")
def exclude_command(store: KeyValueStore, reason: str, name: str) -> None:
    """Exclude the member NAME, until it is readmitted."""
    _check_member(name, status(store))
    exclusion.exclude(store, name, reason)
    click.echo(f"{name} is excluded until it is readmitted")


def _check_member(name: str, found: Status) -> None:
    """Warn of a name that no member has; refuse one that is a process id."""
    members = dict.fromkeys([*found.members, *found.waiting, *found.lost])
    if name in members:
        return
    which = f"members: {', '.join(members) or 'none yet'}"
    if name.isdecimal():
        raise click.ClickException(
            f"{name} is not a member but a number; pass the NAME of one before PID "
            f"({which})"
        )
    click.echo(f"warning: {name} is not a member yet ({which})", err=True)


@main.command("readmit")
@click.argument("name")
@_of_job
def readmit_command(store: KeyValueStore, name: str) -> None:
    """Readmit the excluded member NAME."""
    if name not in status(store).excluded:
        raise click.ClickException(f"{name} is not excluded")
    exclusion.readmit(store, name)
    click.echo(f"{name} is readmitted")
