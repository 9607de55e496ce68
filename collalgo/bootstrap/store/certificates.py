"""Certificates for etcd: those of the user, and those for the own etcd of a job.

The latter can be made by all that know the secret of the job: the key of the authority
is derived from it, so nothing is passed on.
"""

import hashlib
import hmac
import os
import ssl
import tempfile
from collections.abc import Sequence
from datetime import datetime, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collalgo.base import owned
from collalgo.errors import BootstrapError

if TYPE_CHECKING:  # an optional package
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

#: Where ``etcdctl`` finds certificates too: of the authority, of the client, its key.
AUTHORITY, CERTIFICATE, KEY = "ETCDCTL_CACERT", "ETCDCTL_CERT", "ETCDCTL_KEY"

#: The same in all certificates of the authority, which thus are one; no clock matters.
BEGIN = datetime(2020, 1, 1, tzinfo=timezone.utc)
END = datetime(2120, 1, 1, tzinfo=timezone.utc)
NAME = "collalgo job"


class Certificates(NamedTuple):
    """The files of the authority, of a certificate, and of its key, as PEM."""

    authority: Path
    certificate: Path
    key: Path

    @classmethod
    def write(cls, folder: Path, secret: bytes, hosts: Sequence[str]) -> "Certificates":
        """Make a certificate for servers on some hosts and their clients.

        Raises
        ------
        BootstrapError
            If the package cryptography is not installed.
        """
        found = cls(*(folder / f"{name}.pem" for name in cls._fields))
        for path, content in zip(found, _contents(secret, hosts), strict=True):
            with open(path, "xb", opener=owned.private) as made:
                made.write(content)
        return found


def context_of_environment() -> ssl.SSLContext | None:
    """The TLS of a client by the certificates that the environment names, if any."""
    if not {AUTHORITY, CERTIFICATE, KEY} & set(os.environ):
        return None
    context = ssl.create_default_context(cafile=os.environ.get(AUTHORITY))
    if CERTIFICATE in os.environ:
        context.load_cert_chain(os.environ[CERTIFICATE], os.environ.get(KEY))
    return context


def client_context(secret: bytes, hosts: Sequence[str]) -> ssl.SSLContext:
    """The TLS of a client that knows the secret of a job."""
    with tempfile.TemporaryDirectory(prefix="collalgo-") as folder:
        Path(folder).chmod(owned.OF_FOLDER)  # whatever the umask
        found = Certificates.write(Path(folder), secret, hosts)
        context = ssl.create_default_context(cafile=str(found.authority))
        context.load_cert_chain(found.certificate, found.key)
    return context


def _contents(secret: bytes, hosts: Sequence[str]) -> tuple[bytes, bytes, bytes]:
    """The certificate of the authority, another certificate and its key."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError:
        raise BootstrapError(
            "the certificates of a job's own etcd need the package cryptography; "
            "install it on all nodes: pip install 'collalgo[etcd]'"
        ) from None
    seed = hmac.digest(secret, b"the authority of the certificates", hashlib.sha256)
    authority, own = Ed25519PrivateKey.from_private_bytes(seed), Ed25519PrivateKey
    key = own.generate()
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    issued = (_issued(authority, each, hosts) for each in (authority, key))
    first, second = (each.public_bytes(pem) for each in issued)
    return first, second, private


def _issued(
    authority: "Ed25519PrivateKey", key: "Ed25519PrivateKey", hosts: Sequence[str]
) -> "x509.Certificate":
    """A certificate for a key, or that of the authority for its own key."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    is_authority = key is authority
    name, issuer = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, each)])
        for each in (NAME if is_authority else f"{NAME} member", NAME)
    )
    serial = 1 if is_authority else x509.random_serial_number()
    builder = x509.CertificateBuilder(issuer, name, key.public_key(), serial)
    builder = builder.not_valid_before(BEGIN).not_valid_after(END)
    for extension, is_critical in [
        (x509.BasicConstraints(is_authority, None), True),
        (_usage(is_authority=is_authority), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        *([] if is_authority else _of_member(authority, hosts)),
    ]:
        builder = builder.add_extension(extension, is_critical)
    return builder.sign(authority, None)


def _of_member(
    authority: "Ed25519PrivateKey", hosts: Sequence[str]
) -> "list[tuple[x509.ExtensionType, bool]]":
    """What only certificates of members have, and whether it is critical."""
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

    public = authority.public_key()
    return [
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(public), False),
        (x509.SubjectAlternativeName([_general_name(each) for each in hosts]), False),
        (x509.ExtendedKeyUsage([Usage.SERVER_AUTH, Usage.CLIENT_AUTH]), False),
    ]


def _usage(*, is_authority: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
