"""An etcd of several members, on this host or on those of an emulated cluster."""

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.request import Request, urlopen

from collalgo.bench.disturbances.members import PATIENCE

from collalgo.launch.environment import free_port

#: The ports of a member that has an address of its own: for clients, and for members.
CLIENTS, PEERS = 2379, 2380


#: Options by which etcd elects another leader within 0.6 s, and keeps it when members
#: are back that were cut off (as version 3.5 does by default).
QUICK = ("--heartbeat-interval=50", "--election-timeout=300", "--pre-vote")


@dataclass
class Place:
    """The place of a member: its address and ports, and the prefix of its command."""

    address: str
    clients: int = CLIENTS
    peers: int = PEERS
    prefix: Sequence[str] = field(default=())


def on_this_host(count: int) -> list[Place]:
    """Places on this host, with free ports."""
    return [Place("127.0.0.1", free_port(), free_port()) for _ in range(count)]


Servers = Mapping[str, "subprocess.Popen[bytes]"]


@contextmanager
def etcd(
    places: Sequence[Place], options: Sequence[str] = ()
) -> Iterator[tuple[str, Servers]]:
    """An etcd with a member at each place: its URL, and the members by address."""
    program = shutil.which("etcd")
    if program is None:
        raise SystemExit("etcd is not installed: apt-get install etcd-server")
    made: dict[str, subprocess.Popen[bytes]] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, place in enumerate(places):
                command = [*_command(program, places, number, folder), *options]
                made[f"{place.address}:{place.clients}"] = subprocess.Popen(
                    command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
            yield f"etcd://{','.join(made)}", made
        finally:
            for each in made.values():
                each.kill()
                each.wait()


def _command(
    program: str, places: Sequence[Place], number: int, folder: str
) -> list[str]:
    """The command line of a member."""
    names = ",".join(
        f"e{i}=http://{each.address}:{each.peers}" for i, each in enumerate(places)
    )
    place = places[number]
    at = f"http://{place.address}:{place.clients}"
    among = f"http://{place.address}:{place.peers}"
    return [
        *(*place.prefix, program, "--name", f"e{number}"),
        *("--data-dir", f"{folder}/{number}", "--initial-cluster", names),
        *("--listen-client-urls", at, "--advertise-client-urls", at),
        *("--listen-peer-urls", among, "--initial-advertise-peer-urls", among),
    ]


def leader_of(servers: Servers) -> str:
    """The address of the leader of an etcd on this host, once it has one."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        for address in servers:
            with suppress(URLError, OSError):
                url = f"http://{address}/v3/maintenance/status"
                with urlopen(Request(url, b"{}"), timeout=1) as answer:
                    found = json.load(answer)
                if found.get("leader") == found["header"]["member_id"]:
                    return address
        time.sleep(0.05)
    raise RuntimeError("etcd has no leader")
