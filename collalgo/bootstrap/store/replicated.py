"""The store of a job that several of its nodes hold together: an etcd of its own.

Each node that a URL ``replicated://HOST:PORT,HOST:PORT,HOST:PORT`` names runs a member.
"""

import ssl
from dataclasses import dataclass
from urllib.parse import SplitResult

from collalgo.bootstrap.interfaces import is_loopback
from collalgo.bootstrap.store.certificates import client_context
from collalgo.bootstrap.store.etcd import Etcd
from collalgo.bootstrap.store.etcd_members import members_of
from collalgo.bootstrap.store.hosting import secret_of_job
from collalgo.bootstrap.store.race import Server

#: The least number of members of which one may be lost.
LEAST_MEMBERS = 3

#: The least bytes of a secret between hosts: the key of the certificates is derived
#: from it, and whoever sees a certificate can check guesses.
LEAST_SECRET = 16


@dataclass(frozen=True)
class ReplicatedStore:
    """The members of a job's own etcd.

    Attributes
    ----------
    servers : tuple of (str, int)
        Host and port of each member; the next port is for the other members.
    job : str
        The id of the job.
    secret : bytes
        The secret of the job.
    """

    servers: tuple[Server, ...]
    job: str
    secret: bytes

    @classmethod
    def at(
        cls, url: SplitResult, job: str, who: str, secret: bytes | None = None
    ) -> "ReplicatedStore":
        """The store at a URL.

        Parameters
        ----------
        url
            The URL.
        job
            The id of the job.
        who
            The caller, for errors.
        secret
            The secret of the job; by default that of ``COLLALGO_SECRET``.

        Raises
        ------
        ValueError
            If the URL does not name three members or more, or the secret is short.
        RendezvousError
            If the job has no secret.
        """
        servers = members_of(url.netloc)
        valid = all(host and 0 < port < 65535 for host, port in servers)
        if url.path.strip("/") or not valid or len(servers) < LEAST_MEMBERS:
            raise ValueError(
                f"{url.geturl()!r} names {len(servers)} members; pass at least "
                f"{LEAST_MEMBERS} different ones, of which one may be lost: "
                "replicated://HOST:PORT,HOST:PORT,HOST:PORT"
            )
        host = next((host for host, _ in servers if not is_loopback(host)), "localhost")
        found = secret_of_job(host, who, url.geturl(), secret)
        if len(found) < LEAST_SECRET and not is_loopback(host):
            raise ValueError(
                f"the secret of {url.geturl()} has {len(found)} bytes but needs at "
                f"least {LEAST_SECRET}, as certificates are made from it; set "
                "COLLALGO_SECRET to the same 32 hexadecimal digits on all nodes"
            )
        return cls(tuple(servers), job, found)

    @property
    def hosts(self) -> list[str]:
        """The hosts of the members."""
        return list(dict.fromkeys(host for host, _ in self.servers))

    def client_context(self) -> ssl.SSLContext:
        """The TLS of a client."""
        return client_context(self.secret, self.hosts)

    def connect(self) -> Etcd:
        """Connect with the store."""
        return Etcd(self.servers, self.job, self.client_context())
