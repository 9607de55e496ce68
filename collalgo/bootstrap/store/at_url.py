"""The store of an elastic job, by the URL of its rendezvous."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote

from collalgo.bootstrap.interfaces import is_address
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.etcd_members import members_of, split_url
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.store.hosting import secret_of_job
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.bootstrap.store.replicated import ReplicatedStore
from collalgo.errors import BootstrapError

#: Seconds of one attempt to reach the store; the rendezvous makes several.
ATTEMPT_SECONDS = 2.0

#: The most bytes of a job id, which names a folder in a store of folders.
ID_BYTES = 255


@dataclass(frozen=True, kw_only=True)
class StorePlace:
    """The store of a job, and the process that uses it.

    Attributes
    ----------
    url : SplitResult
        The URL that the user gave.
    job : str
        The id of the job. Jobs that share an etcd differ in it; an embedded store
        refuses a second job.
    name : str
        The name of the node that uses it.
    secret : bytes or None
        The secret of the job, if the user gave one.
    seconds : float
        Seconds in which attempts to reach an embedded store begin.
    """

    url: SplitResult
    job: str
    name: str
    secret: bytes | None = None
    seconds: float = field(default_factory=lambda: ATTEMPT_SECONDS)

    def __str__(self) -> str:
        return f"job {self.job} at {self.url.geturl()}"


def store_place(
    url: str, job: str, name: str | None = None, secret: bytes | None = None
) -> StorePlace:
    """The place that a URL and an id name.

    Raises
    ------
    ValueError, TypeError
        If the id is not one, the URL is malformed, or the secret is not bytes.
    """
    try:
        parts = split_url(url if "://" in url else f"collalgo://{url}")
    except ValueError as error:
        raise ValueError(f"{url!r} is not a URL ({error})") from None
    if not job or "/" in job:
        raise ValueError(f"{job!r} is not a job id; pass a text without a slash")
    if (nbytes := len(job.encode(errors="replace"))) > ID_BYTES:
        raise ValueError(
            f"{job!r:.40} is not a job id: it has {nbytes} bytes; pass {ID_BYTES} at "
            "most"
        )
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    _check_form(parts)
    if secret is not None and not isinstance(secret, bytes):
        raise TypeError(f"the secret of a job is {type(secret).__name__}; pass bytes")
    return StorePlace(url=parts, job=job, name=name, secret=secret)


def _check_form(url: SplitResult) -> None:
    """Refuse a URL of our own schemes that names no place."""
    match url.scheme:
        case "collalgo":
            form, right = "HOST:PORT", is_address(url.netloc) and bool(url.hostname)
        case "etcd" | "replicated":
            form = "HOST:PORT,HOST:PORT"
            right = all(host for host, _ in members_of(url.netloc))
        case "file":
            path = unquote(url.path)
            form = "/FOLDER"
            right = not url.netloc and "\0" not in path and bool(path.strip("/"))
        case _:
            return
    if not right:
        raise ValueError(f"{url.geturl()!r} is not of the form {url.scheme}://{form}")


def embedded_at(place: StorePlace) -> tuple[str, int, bytes]:
    """The host and the port of an embedded store, and its secret."""
    host, port = str(place.url.hostname), int(place.url.port or 0)
    secret = secret_of_job(host, f"node {place.name}", str(place), place.secret)
    return host, port, secret


def embedded_store(place: StorePlace, lost: Callable[[str], None]) -> KeyValueStore:
    """Connect with a store that a process on the host of the URL holds."""
    host, port, secret = embedded_at(place)
    return Client([host], port, secret, place.seconds, lost)


def etcd_store(place: StorePlace, _lost: Callable[[str], None]) -> KeyValueStore:
    """Connect with an etcd that runs already."""
    prefix = f"{unquote(place.url.path).strip('/')}/{place.job}"
    return Etcd(members_of(place.url.netloc), prefix)


def replicated_at(place: StorePlace) -> ReplicatedStore:
    """The own etcd of the job."""
    who = f"node {place.name}"
    return ReplicatedStore.at(place.url, place.job, who, place.secret)


def replicated_store(place: StorePlace, _lost: Callable[[str], None]) -> KeyValueStore:
    """Connect with the own etcd of the job."""
    return replicated_at(place).connect()


def folder_of(place: StorePlace) -> Path:
    """The folder of a job in the folder of the URL."""
    return Path(unquote(place.url.path), place.job)


def folder_store(place: StorePlace, _lost: Callable[[str], None]) -> KeyValueStore:
    """Use a folder that all hosts share."""
    return FileStore(folder_of(place))


#: Connects with the store of each scheme that has one.
STORES: dict[str, Callable[[StorePlace, Callable[[str], None]], KeyValueStore]] = {
    "collalgo": embedded_store,
    "etcd": etcd_store,
    "file": folder_store,
    "replicated": replicated_store,
}

#: What is known of the store of each scheme before it is connected.
KINDS: dict[str, type[Client | Etcd | FileStore]] = {
    "collalgo": Client,
    "etcd": Etcd,
    "file": FileStore,
    "replicated": Etcd,
}


def running_store(place: StorePlace) -> KeyValueStore:
    """Connect with the store of a job that runs.

    Raises
    ------
    ValueError
        If the URL names no store.
    BootstrapError
        If the store is not reached.
    """
    url, scheme = place.url.geturl(), place.url.scheme
    if scheme not in STORES:
        raise ValueError(f"{url} names no store; use {', '.join(sorted(STORES))}")
    if scheme == "file" and not _is_folder(folder_of(place)):  # make none
        raise BootstrapError(
            f"no job {place.job!r} uses {url}: {folder_of(place)} is not a folder"
        )
    return STORES[scheme](place, lambda _why: None)


def _is_folder(path: Path) -> bool:
    """Whether a path is a folder; not if it has too long a name for one."""
    try:
        return path.is_dir()
    except OSError:
        return False
