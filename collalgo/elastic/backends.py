"""The rendezvous of the members of a job, by a URL; other packages can add schemes.

An entry point of the group ``collalgo.rendezvous`` is named after a scheme and leads to
a function of a :class:`Place` that returns a :class:`~.interface.Rendezvous`. Our own
schemes are found without one, as a source tree may have no metadata.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from collalgo.base import plugins
from collalgo.bootstrap.interfaces import is_address
from collalgo.bootstrap.store.client import Client
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.etcd_gateway import members_of
from collalgo.bootstrap.store.file import FileStore
from collalgo.bootstrap.store.hosting import Hosting, secret_of_job
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.bootstrap.store.replicated import ReplicatedStore
from collalgo.elastic.interface import Rendezvous
from collalgo.elastic.settings import Settings
from collalgo.elastic.static import StaticRendezvous
from collalgo.elastic.store_rendezvous import StoreRendezvous
from collalgo.errors import BootstrapError

#: Seconds of one attempt to reach the store; the rendezvous makes several.
ATTEMPT_SECONDS = 2.0


@dataclass(frozen=True)
class Place:
    """The rendezvous of a job, and the identity of this node.

    Attributes
    ----------
    url : SplitResult
        The URL that the user gave.
    job : str
        The id of the job. Jobs that share an etcd differ in it; an embedded store
        refuses a second job.
    settings : Settings
        The settings of the job.
    name : str
        The name of this node.
    secret : bytes or None
        The secret of the job, if the user gave one.
    """

    url: SplitResult
    job: str
    settings: Settings
    name: str
    secret: bytes | None = None

    def __str__(self) -> str:
        return f"job {self.job} at {self.url.geturl()}"


def rendezvous(
    url: str,
    job: str,
    settings: Settings,
    name: str | None = None,
    secret: bytes | None = None,
) -> Rendezvous:
    """The rendezvous that a URL names.

    Parameters
    ----------
    url
        ``collalgo://HOST:PORT`` or ``HOST:PORT``: a store that the first node on that
        host holds; ``replicated://HOST:PORT,HOST:PORT,HOST:PORT``: a store that these
        nodes hold together; ``etcd://HOST:PORT,HOST:PORT``: an etcd that runs already;
        ``file:///FOLDER``: a folder that all hosts share;
        ``static://NAME,NAME``: fixed members; or a scheme that another package adds.
    job
        The id of the job.
    settings
        The number of its members, and their timeouts.
    name
        The name of this node, by default that of the host with the process id.
    secret
        The secret of the job; by default ``COLLALGO_SECRET``, in hexadecimal digits.

    Raises
    ------
    ValueError
        If the URL names no place, or there is no such scheme.
    RendezvousError
        If the store is not reached in ``settings.store_timeout`` seconds.
    """
    place = _place(url, job, settings, name, secret)
    return _scheme(place.url.scheme)(place)


def store_at(url: str, job: str, secret: bytes | None = None) -> KeyValueStore:
    """The store of a running job, to inspect the job.

    Parameters
    ----------
    url, job, secret
        As for :func:`rendezvous`.

    Raises
    ------
    ValueError
        If the URL names no store.
    BootstrapError
        If the store is not reached.
    """
    place = _place(url, job, Settings(1, 1), None, secret)
    if place.url.scheme not in STORES:
        raise ValueError(f"{url} names no store; use {', '.join(sorted(STORES))}")
    if place.url.scheme == "file" and not _folder_of(place).is_dir():  # make none
        raise BootstrapError(
            f"no job {job!r} uses {url}: {_folder_of(place)} is not a folder"
        )
    return STORES[place.url.scheme](place, lambda _why: None)


def _place(
    url: str, job: str, settings: Settings, name: str | None, secret: bytes | None
) -> Place:
    parts = urlsplit(url if "://" in url else f"collalgo://{url}")
    if not job or "/" in job:
        raise ValueError(f"{job!r} is not a job id; pass a text without a slash")
    name = name or f"{socket.gethostname()}-{os.getpid()}"
    return Place(parts, job, settings, name, secret)


def embedded(place: Place) -> StoreRendezvous:
    """Join over a store that a node on the host of the URL holds."""
    hosting = Hosting(*_embedded_at(place))

    def connect(lost: Callable[[str], None]) -> KeyValueStore:
        hosting.begin()
        return _embedded_store(place, lost)

    terms = {"job": place.job, **place.settings.terms}  # a store holds one job
    settings = replace(place.settings, terms=terms)
    return StoreRendezvous(connect, str(place), settings, place.name, hosting)


def _embedded_at(place: Place) -> tuple[str, int, bytes]:
    """The host and the port of an embedded store, and its secret."""
    if not place.url.hostname or not is_address(place.url.netloc):
        raise ValueError(
            f"{place.url.geturl()!r} is not of the form collalgo://HOST:PORT"
        )
    host, port = place.url.hostname, int(place.url.port or 0)
    secret = secret_of_job(host, f"node {place.name}", str(place), place.secret)
    return host, port, secret


def _embedded_store(place: Place, lost: Callable[[str], None]) -> KeyValueStore:
    host, port, secret = _embedded_at(place)
    return Client([host], port, secret, ATTEMPT_SECONDS, lost)


def etcd(place: Place) -> StoreRendezvous:
    """Join over an etcd that runs already."""
    connect = partial(_etcd_store, place)
    return StoreRendezvous(connect, str(place), place.settings, place.name)


def _etcd_store(place: Place, _lost: Callable[[str], None]) -> KeyValueStore:
    prefix = f"{unquote(place.url.path).strip('/')}/{place.job}"
    return Etcd(members_of(place.url.netloc), prefix)


def replicated(place: Place) -> StoreRendezvous:
    """Join over the own etcd of the job, which the launchers of its nodes run."""
    connect = partial(_replicated_store, place)
    return StoreRendezvous(connect, str(place), place.settings, place.name)


def _replicated_store(place: Place, _lost: Callable[[str], None]) -> KeyValueStore:
    who = f"node {place.name}"
    return ReplicatedStore.at(place.url, place.job, who, place.secret).connect()


def folder(place: Place) -> StoreRendezvous:
    """Join over a folder that all hosts share."""
    connect = partial(_folder_store, place)
    return StoreRendezvous(connect, str(place), place.settings, place.name)


def _folder_of(place: Place) -> Path:
    if place.url.netloc or not place.url.path.strip("/"):
        raise ValueError(f"{place.url.geturl()!r} is not of the form file:///FOLDER")
    return Path(unquote(place.url.path), place.job)


def _folder_store(place: Place, _lost: Callable[[str], None]) -> KeyValueStore:
    return FileStore(_folder_of(place))


def static(place: Place) -> StaticRendezvous:
    """Join without a store: all members are named."""
    return StaticRendezvous(tuple(place.url.netloc.split(",")), place.name)


#: Our own schemes.
SCHEMES: dict[str, Callable[[Place], Rendezvous]] = {
    "collalgo": embedded,
    "etcd": etcd,
    "file": folder,
    "replicated": replicated,
    "static": static,
}

#: Connects with the store of each scheme that has one.
STORES: dict[str, Callable[[Place, Callable[[str], None]], KeyValueStore]] = {
    "collalgo": _embedded_store,
    "etcd": _etcd_store,
    "file": _folder_store,
    "replicated": _replicated_store,
}


def _scheme(name: str) -> Callable[[Place], Rendezvous]:
    """The function that makes the rendezvous of a scheme."""
    if name in SCHEMES:
        return SCHEMES[name]
    added: Callable[[Place], Rendezvous] | None = plugins.find(plugins.RENDEZVOUS, name)
    if added is None:
        known = ", ".join(sorted({*SCHEMES, *plugins.names(plugins.RENDEZVOUS)}))
        raise ValueError(f"{name}:// is not a rendezvous scheme; use {known}")
    return added
