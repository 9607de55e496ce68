"""Places where the processes of a job meet, as people name them.

``env://`` (the variables of torchrun), ``tcp://HOST:PORT``, ``file:///PATH`` of a
folder that all can reach, ``etcd://HOST:PORT/PREFIX``, or a store of their own.
"""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from collalgo.base.foreign import package_of
from collalgo.base.integers import integer
from collalgo.bootstrap.connect import connect_at, connect_at_store, connect_over
from collalgo.bootstrap.context import Context
from collalgo.bootstrap.foreign_stores import (
    EtcdPrefix,
    Folder,
    HorovodStore,
    KeyValueStore,
    TorchStore,
)
from collalgo.bootstrap.identity import (
    Identity,
    Means,
    identity,
    torchrun_keeps_a_store,
)
from collalgo.bootstrap.store import etcd
from collalgo.errors import BootstrapError


def connect_by_url(
    where: str | Any,
    secret: str | None,
    rank: int | None,
    size: int | None,
    engine: str | None,
    timeout: float,
) -> Context:
    """Meet at a place that :func:`collalgo.init` was given.

    Raises
    ------
    ValueError
        If that is no place, or rank and size are not known.
    BootstrapError
        If the ranks do not find each other.
    """
    if not isinstance(where, str):
        return connect_over(_board(where), *_known(rank, size), engine, timeout)
    url = urlsplit(where if "://" in where else f"tcp://{where}")
    if url.scheme == "env":
        return _by_environment(secret, engine, timeout)
    if url.scheme == "tcp" and url.netloc:
        return connect_at(url.netloc, secret, *_known(rank, size), engine, timeout)
    board: Folder | EtcdPrefix
    if url.scheme == "file" and url.path and not url.netloc:
        known = _known(rank, size)
        board = Folder(Path(unquote(url.path)))
    elif url.scheme == "etcd" and url.netloc and url.path.strip("/"):
        known = _known(rank, size)
        board = EtcdPrefix(etcd.Etcd(_members(url), unquote(url.path)), where)
    else:
        raise ValueError(
            f"init: {where!r} is no place to meet; pass env://, tcp://HOST:PORT, "
            "file:///PATH, etcd://HOST:PORT/PREFIX, or HOST:PORT"
        )
    return _on_removable(board, *known, engine, timeout)


def _members(url: SplitResult) -> list[tuple[str, int]]:
    """Host and port of each member of etcd, with commas between them."""
    places = [urlsplit(f"//{place}") for place in url.netloc.split(",")]
    return [(place.hostname or "", place.port or etcd.PORT) for place in places]


def _known(rank: int | None, size: int | None) -> tuple[int, int]:
    if rank is None or size is None:
        raise ValueError(
            f"init: with a place to meet, pass rank and size too, 0 <= rank < size; "
            f"these are rank {rank} and size {size}"
        )
    size = integer(size, "size", "init", 1)
    return integer(rank, "rank", "init", 0, size - 1), size


def _board(store: Any) -> KeyValueStore:
    if package_of(store) == "torch":
        return TorchStore(store)
    if not callable(getattr(store, "set", None)) or not hasattr(store, "get"):
        raise TypeError(
            f"init: {type(store).__name__} is no store; pass one with "
            "set(key, value) and get(key, timeout)"
        )
    board: KeyValueStore = store
    return board


def _on_removable(
    board: Folder | EtcdPrefix,
    rank: int,
    size: int,
    engine: str | None,
    timeout: float,
) -> Context:
    """Meet on a board of which nothing is to be left."""
    try:
        connection = connect_over(board, rank, size, engine, timeout)
    except BaseException:
        board.take_back()
        raise
    if rank == 0:  # all have come, so all have read
        board.remove()
    return connection


def _by_environment(secret: str | None, engine: str | None, timeout: float) -> Context:
    """Meet as the variables of torchrun say, or of somebody who sets the same."""
    env = os.environ
    missing = [
        name
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        if name not in env
    ]
    if missing:
        raise BootstrapError(
            f"env:// needs the environment variables {', '.join(missing)}, which are "
            "not set; start the ranks by torchrun or collalgo run, or set them"
        )
    rank, size = identity({**env, "LOCAL_WORLD_SIZE": env["WORLD_SIZE"]})[:2]
    if torchrun_keeps_a_store(env):
        return connect_over(_store_of_torchrun(timeout), rank, size, engine, timeout)
    place = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    return connect_at(place, secret, rank, size, engine, timeout)


def connect_by_launcher(me: Identity, engine: str | None, timeout: float) -> Context:
    """Meet the ranks of several hosts as their launcher says."""
    if me.means is Means.STORE:
        return connect_at_store(me, engine, timeout)
    env = os.environ
    board: KeyValueStore
    if torchrun_keeps_a_store(env):
        board = _store_of_torchrun(timeout)
    else:
        port = int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])
        board = HorovodStore(env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], port)
    return connect_over(board, me.rank, me.size, engine, timeout)


def _store_of_torchrun(timeout: float) -> TorchStore:
    """The store that torchrun keeps for its ranks."""
    from torch.distributed import PrefixStore, TCPStore

    env = os.environ
    store = TCPStore(
        env["MASTER_ADDR"],
        int(env["MASTER_PORT"]),
        is_master=False,
        timeout=timedelta(seconds=timeout),
    )
    attempt = env.get("TORCHELASTIC_RESTART_COUNT", "0")
    return TorchStore(PrefixStore(f"collalgo {attempt}", store))
