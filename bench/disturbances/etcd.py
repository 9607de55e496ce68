"""An etcd of several members, on this host or on those of an emulated cluster."""

import json
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from urllib.error import URLError
from urllib.request import Request, urlopen

from collalgo.bench.disturbances.members import PATIENCE

from collalgo.launch.environment import free_port
from collalgo.launch.etcd_member import etcd_program

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


class Servers:
    """The members of an etcd by their addresses, each of which can be killed.

    Parameters
    ----------
    places
        Where they run.
    options
        Their further options.
    folder
        For their data.
    program
        The path of etcd; by default that which is installed.
    """

    def __init__(
        self,
        places: Sequence[Place],
        options: Sequence[str],
        folder: str,
        program: str = "",
    ):
        program = program or etcd_program()
        self._made: dict[str, subprocess.Popen[bytes]] = {}
        self._commands = {
            f"{place.address}:{place.clients}": [
                *_command(program, places, number, folder),
                *options,
            ]
            for number, place in enumerate(places)
        }
        for address in self._commands:
            self.start(address)

    def __iter__(self) -> Iterator[str]:
        return iter(self._commands)

    @property
    def url(self) -> str:
        return f"etcd://{','.join(self)}"

    def start(self, address: str) -> None:
        """Start a member, with the data that it has if it ran before."""
        self._made[address] = subprocess.Popen(
            self._commands[address],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self, address: str) -> None:
        """Kill a member."""
        self._made[address].kill()
        self._made[address].wait()

    def processes(self) -> list[int]:
        """The numbers of their processes."""
        return [each.pid for each in self._made.values()]

    def close(self) -> None:
        """Kill all of them."""
        for address in self._made:
            self.kill(address)


@contextmanager
def etcd(
    places: Sequence[Place], options: Sequence[str] = (), program: str = ""
) -> Iterator[Servers]:
    """An etcd with a member at each place."""
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(Servers(places, options, folder, program)) as servers,
    ):
        yield servers


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


def version_of(program: str) -> str:
    """The name and the version of an etcd, as "etcd 3.5.30"."""
    asked = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True)
    return f"etcd {asked.stdout.split()[2].decode()}"


def leader_of(servers: Iterable[str]) -> str:
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
    raise TimeoutError(f"etcd has had no leader for {PATIENCE:g} s")
