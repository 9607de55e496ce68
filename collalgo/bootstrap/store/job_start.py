"""The command of an elastic job in its store: all nodes of a job run the same.

A second job under the id of another one would join that as further members.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import PurePath

from collalgo.bootstrap.store.at_url import STORES, StorePlace
from collalgo.bootstrap.store.job_keys import CLOSED, COMMAND
from collalgo.bootstrap.store.protocol import ABSENT, KeyValueStore, StoreError
from collalgo.bootstrap.store.repeated import repeated
from collalgo.errors import RendezvousClosed, RendezvousError

#: Seconds in which a node has to reach the store, more than its ranks have later, as
#: nodes start at different times; and those after which it says that it waits.
PATIENCE, SILENT = 60.0, 3.0

#: The characters of a command in the store, before a digest of a longer one.
MOST_CHARACTERS = 4000


def check_start(
    place: StorePlace,
    command: Sequence[str],
    terms: Mapping[str, str],
    report: Callable[[str], None],
) -> None:
    """Check that a node may run a command for a job; the first one notes it.

    A store that another package provides is not asked.

    Parameters
    ----------
    place
        The store, and the name of the node.
    command
        The command line of its ranks. Only the last part of an absolute path counts,
        as hosts may have another one, and not which Python it is. It is readable in
        the store.
    terms
        What else is equal on all nodes, by name.
    report
        Called with a line if the store is not reached soon.

    Raises
    ------
    RendezvousClosed
        If the job has ended.
    RendezvousError
        If the job has another command or other terms, or the store is not reached.
    """
    if place.url.scheme not in STORES:
        return
    ours = {**terms, "command": _comparable(command)}
    theirs = _noted(place, ours, report)
    if difference := first_difference(theirs, ours):
        raise RendezvousError(differing(place.name, str(place), *difference))


def _noted(
    place: StorePlace, ours: Mapping[str, str], report: Callable[[str], None]
) -> Mapping[str, str]:
    """The terms of the job in its store, which another node may still have to start."""
    told = False

    def asked() -> Mapping[str, str]:
        with closing(STORES[place.url.scheme](place, lambda _why: None)) as store:
            return _asked(place, store, ours)

    def failed(error: Exception, waited: float) -> None:
        nonlocal told
        if waited > SILENT and not told:
            report(f"waiting for the store of {place}: {error}")
            told = True

    try:
        return repeated(asked, PATIENCE, f"the store of {place}", failed=failed)
    except StoreError as error:
        raise RendezvousError(f"node {place.name} cannot join: {error}") from None


def _asked(
    place: StorePlace, store: KeyValueStore, ours: Mapping[str, str]
) -> Mapping[str, str]:
    """The terms of the job in a store; the first node notes its own."""
    if (closed := store.read(CLOSED)) is not None:
        reason = _fields(closed.value).get("reason") or "it has ended"
        raise RendezvousClosed(
            f"node {place.name} cannot join {place}, which is closed ({reason}); start "
            "another job under another id"
        )
    found = store.compare_set(COMMAND, json.dumps(ours).encode(), ABSENT).entry
    return ours if found is None else _fields(found.value)


def _comparable(command: Sequence[str]) -> str:
    """A command line without what may differ between the hosts of a job.

    The end of a very long one is replaced by a digest of the whole.
    """
    first, *others = command
    program = PurePath(first).name
    words = ["python" if program.startswith("python") else program]
    whole = shlex.join(words + [_without_folder(word) for word in others])
    if len(whole) <= MOST_CHARACTERS:
        return whole
    digest = sha256(whole.encode(errors="surrogatepass")).hexdigest()
    return f"{whole[:MOST_CHARACTERS]}... (SHA-256 {digest})"


def _without_folder(word: str) -> str:
    """The word of a command line with the last part only of an absolute path.

    The path may be the value of an option, which keeps its name.
    """
    name, sign, value = word.partition("=")
    if not sign:
        name, value = "", word
    path = PurePath(value)
    if path.is_absolute():
        value = path.name or value
    elif value.startswith("./"):
        value = str(path)
    return name + sign + value


def _fields(document: bytes) -> dict[str, str]:
    """The texts of a document; none of a malformed one, which members refuse."""
    try:
        found = json.loads(document)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict):
        return {}
    return {name: text for name, text in found.items() if isinstance(text, str)}


def first_difference(
    theirs: Mapping[str, str], ours: Mapping[str, str]
) -> tuple[str, str, str] | None:
    """The first term that differs: its name, the value of the job, and that of ours."""
    for name in sorted({*theirs, *ours}) if theirs else ():
        if theirs.get(name, "") != ours.get(name, ""):
            return name, theirs.get(name, ""), ours.get(name, "")
    return None


def differing(name: str, where: str, term: str, theirs: str, ours: str) -> str:
    """The error of a node that differs from its job in a term."""
    return (
        f"node {name} cannot join {where}: it has {term} {ours or 'unset'!r} but the "
        f"job {theirs or 'unset'!r}; start all nodes with the same, and another job "
        "under another id"
    )
