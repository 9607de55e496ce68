"""The URLs and stores by which ``init`` lets the processes of a job connect.

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
from collalgo.bootstrap.folder import Folder
from collalgo.bootstrap.foreign_stores import HorovodStore, SharedPrefix, TorchStore
from collalgo.bootstrap.identity import (
    Identity,
    Means,
    identity,
    torchrun_keeps_a_store,
)
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.etcd_gateway import PORT as ETCD_PORT
from collalgo.bootstrap.store.protocol import ExchangeStore
from collalgo.errors import BootstrapError


def connect_by_url(
    where: str | Any,
    secret: str | None,
    rank: int | None,
    size: int | None,
    engine: str | None,
    timeout: float,
) -> Context:
    """Connect as the arguments of :func:`collalgo.init` say.

    Raises
    ------
    ValueError
        If the URL is none of these, or rank and size are missing.
    BootstrapError
        If the ranks cannot connect.
    """
    if not isinstance(where, str):
        return connect_over(_store(where), *_known(rank, size), engine, timeout)
    url = urlsplit(where if "://" in where else f"tcp://{where}")
    if url.scheme == "env":
        return _by_environment(secret, engine, timeout)
    if url.scheme == "tcp" and url.netloc:
        return connect_at(url.netloc, secret, *_known(rank, size), engine, timeout)
    store: Folder | SharedPrefix
    if url.scheme == "file" and url.path and not url.netloc:
        known = _known(rank, size)
        store = Folder(Path(unquote(url.path)))
    elif url.scheme == "etcd" and url.netloc and url.path.strip("/"):
        known = _known(rank, size)
        store = SharedPrefix(Etcd(_members(url), unquote(url.path)), where)
    else:
        raise ValueError(
            f"init: {where!r} is no URL to connect by; pass env://, tcp://HOST:PORT, "
            "file:///PATH, etcd://HOST:PORT/PREFIX, or HOST:PORT"
        )
    return _over_temporary(store, *known, engine, timeout)


def _members(url: SplitResult) -> list[tuple[str, int]]:
    """Host and port of each member of etcd, separated by commas in the URL."""
    members = [urlsplit(f"//{member}") for member in url.netloc.split(",")]
    return [(member.hostname or "", member.port or ETCD_PORT) for member in members]


def _known(rank: int | None, size: int | None) -> tuple[int, int]:
    if rank is None or size is None:
        raise ValueError(
            f"init: with a URL or a store, pass rank and size too, 0 <= rank < size; "
            f"these are rank {rank} and size {size}"
        )
    size = integer(size, "size", "init", 1)
    return integer(rank, "rank", "init", 0, size - 1), size


def _store(store: Any) -> ExchangeStore:
    if package_of(store) == "torch":
        return TorchStore(store)
    if not callable(getattr(store, "set", None)) or not hasattr(store, "get"):
        raise TypeError(
            f"init: {type(store).__name__} is no store; pass one with "
            "set(key, value) and get(key, timeout)"
        )
    ours: ExchangeStore = store
    return ours


def _over_temporary(
    store: Folder | SharedPrefix,
    rank: int,
    size: int,
    engine: str | None,
    timeout: float,
) -> Context:
    """Connect over a store, and remove what the ranks have written there."""
    try:
        context = connect_over(store, rank, size, engine, timeout)
    except BaseException:
        store.take_back()
        raise
    else:
        if rank == 0:  # all ranks have connected, so all have read
            store.remove()
        return context
    finally:
        store.close()


def _by_environment(secret: str | None, engine: str | None, timeout: float) -> Context:
    """Connect as the variables of torchrun say, whichever launcher sets them."""
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
    address = f"{env['MASTER_ADDR']}:{env['MASTER_PORT']}"
    return connect_at(address, secret, rank, size, engine, timeout)


def connect_by_launcher(me: Identity, engine: str | None, timeout: float) -> Context:
    """Connect the ranks of several hosts over the store of their launcher."""
    if me.means is Means.STORE:
        return connect_at_store(me, engine, timeout)
    env = os.environ
    store: ExchangeStore
    if torchrun_keeps_a_store(env):
        store = _store_of_torchrun(timeout)
    else:
        port = int(env["HOROVOD_GLOO_RENDEZVOUS_PORT"])
        store = HorovodStore(env["HOROVOD_GLOO_RENDEZVOUS_ADDR"], port)
    return connect_over(store, me.rank, me.size, engine, timeout)


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
