"""The rendezvous of the members of a job, by a URL; other packages can add schemes.

An entry point of the group ``collalgo.rendezvous`` is named after a scheme and leads to
a function of a :class:`Place` that returns a :class:`~.interface.Rendezvous`. Our own
schemes are found without one, as a source tree may have no metadata.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from collalgo.base import plugins
from collalgo.bootstrap.store.at_url import (
    StorePlace,
    embedded_at,
    embedded_store,
    etcd_store,
    folder_store,
    replicated_store,
    running_store,
    store_place,
)
from collalgo.bootstrap.store.hosting import Hosting
from collalgo.bootstrap.store.protocol import KeyValueStore
from collalgo.elastic.interface import Rendezvous
from collalgo.elastic.settings import Settings
from collalgo.elastic.static import StaticRendezvous
from collalgo.elastic.store_rendezvous import StoreRendezvous


@dataclass(frozen=True, kw_only=True)
class Place(StorePlace):
    """The rendezvous of a job, and the identity of this node.

    Attributes
    ----------
    settings : Settings
        The settings of the job.
    """

    settings: Settings


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
    found = store_place(url, job, name, secret)
    place = Place(**vars(found), settings=settings)
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
    return running_store(store_place(url, job, None, secret))


def embedded(place: Place) -> StoreRendezvous:
    """Join over a store that a node on the host of the URL holds."""
    hosting = Hosting(*embedded_at(place))

    def connect(lost: Callable[[str], None]) -> KeyValueStore:
        hosting.begin()
        return embedded_store(place, lost)

    terms = {"job": place.job, **place.settings.terms}  # a store holds one job
    settings = replace(place.settings, terms=terms)
    return StoreRendezvous(connect, str(place), settings, place.name, hosting)


def etcd(place: Place) -> StoreRendezvous:
    """Join over an etcd that runs already."""
    connect = partial(etcd_store, place)
    return StoreRendezvous(connect, str(place), place.settings, place.name)


def replicated(place: Place) -> StoreRendezvous:
    """Join over the own etcd of the job, which the launchers of its nodes run."""
    connect = partial(replicated_store, place)
    return StoreRendezvous(connect, str(place), place.settings, place.name)


def folder(place: Place) -> StoreRendezvous:
    """Join over a folder that all hosts share."""
    connect = partial(folder_store, place)
    return StoreRendezvous(connect, str(place), place.settings, place.name)


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


def _scheme(name: str) -> Callable[[Place], Rendezvous]:
    """The function that makes the rendezvous of a scheme."""
    if name in SCHEMES:
        return SCHEMES[name]
    added: Callable[[Place], Rendezvous] | None = plugins.find(plugins.RENDEZVOUS, name)
    if added is None:
        known = ", ".join(sorted({*SCHEMES, *plugins.names(plugins.RENDEZVOUS)}))
        raise ValueError(f"{name}:// is not a rendezvous scheme; use {known}")
    return added
