"""A certificate authority in a directory: for a cluster of one's own, and for tests.

    ca.pem, ca-key.pem            the authority; who has ca.pem can check what it signed
    server.pem, server-key.pem    for servers, by any of their names; they show it to each other too
    client.pem, client-key.pem    for clients, where servers want a certificate of them

Keys are P-256, in PKCS#8 as Java wants them, and nobody else's to read. It needs the extra ``tls``;
to serve, and to connect, does not.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rocketpipe.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName

CA_DAYS: Final = 3650
#: What clients of Apple take at the most; a cluster's operator may ask for less.
PAIR_DAYS: Final = 825
#: Names of this machine, for who tries it out.
LOCAL_NAMES: Final = ("localhost", "127.0.0.1", "::1")
_HOST_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.*")
#: Clocks are not all alike.
_SKEW: Final = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; made by `opened`."""

    def __init__(self, directory: Path, certificate: Certificate, key: Any) -> None:
        self.directory = directory
        self._certificate = certificate
        self._key = key

    @property
    def ca_file(self) -> Path:
        """What everybody needs who is to trust it."""
        return self.directory / "ca.pem"

    @classmethod
    def opened(cls, directory: Path) -> Authority:
        """The authority of a directory, made there if there is none.

        Raises:
            ConfigError: If the extra is missing, or the directory cannot be used.
        """
        x509, serialization = _crypto()
        cert_file, key_file = directory / "ca.pem", directory / "ca-key.pem"
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            # One that was killed over it leaves its key, and nothing that the key has signed.
            begun = set(directory.glob("[!.]*.pem")) == {key_file}
            if cert_file.exists() != key_file.exists() and not begun:
                missing = key_file if cert_file.exists() else cert_file
                raise ConfigError(
                    str(directory), f"{missing.name} is missing: bring it back, or begin elsewhere"
                )
            key: Any = None
            if key_file.exists():
                key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            if cert_file.exists():
                certificate = x509.load_pem_x509_certificate(cert_file.read_bytes())
                return cls(directory, certificate, key)
        except OSError as error:
            raise ConfigError(str(directory), f"cannot be used ({error.strerror})") from error
        except ValueError as error:
            raise ConfigError(str(directory), f"its CA cannot be read ({error})") from error
        key = key or _new_key()
        name = _name(f"rocketpipe CA {secrets.token_hex(3)}")
        builder = _builder(name, name, key, CA_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
        certificate = _signed(builder, key, key)
        made = cls(directory, certificate, key)
        if not begun:
            write_file(key_file, _pem_of(key), 0o600)
        write_file(cert_file, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        return made

    def server(self, hosts: Sequence[str], *, name: str = "server", days: int = PAIR_DAYS) -> Pair:
        """A pair for a server that clients reach by ``hosts``: names or addresses.

        Raises:
            ConfigError: If one is neither.
        """
        names = list(dict.fromkeys([*hosts, *LOCAL_NAMES]))
        return self._pair(name, names[0], days, [_general_name(each) for each in names])

    def client(self, name: str = "client", *, days: int = PAIR_DAYS) -> Pair:
        """A pair for a client."""
        return self._pair(name, name, days, [])

    def pair(self, name: str) -> Pair:
        """Where the files of a name are, or would be."""
        return Pair(self.directory / f"{name}.pem", self.directory / f"{name}-key.pem")

    def _pair(self, file: str, common: str, days: int, names: list[GeneralName]) -> Pair:
        x509, serialization = _crypto()
        usages = [x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
        if names:
            usages.insert(0, x509.oid.ExtendedKeyUsageOID.SERVER_AUTH)
        key = _new_key()
        builder = _builder(_name(common[:64]), self._certificate.subject, key, days)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(
            x509.BasicConstraints(ca=False, path_length=None), critical=True
        )
        builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = _signed(builder, key, self._key)
        pair = self.pair(file)
        write_file(pair.key, _pem_of(key), 0o600)
        write_file(pair.cert, certificate.public_bytes(serialization.Encoding.PEM), 0o644)
        return pair


def _crypto() -> tuple[Any, Any]:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
    except ImportError as error:
        raise ConfigError(
            "tls init", "making certificates needs the extra tls: pip install cryptography"
        ) from error
    return x509, serialization


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _name(common: str) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _usage(*, signs_certificates: bool) -> Any:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: Any, issuer: Any, key: EllipticCurvePrivateKey, days: int
) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    end = now + datetime.timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, end) - _SKEW)
        .not_valid_after(end)
    )


def _signed(builder: CertificateBuilder, key: Any, signer: Any) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    builder = builder.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
    )
    return builder.sign(signer, hashes.SHA256())


def _pem_of(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    pem: bytes = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        pass
    try:
        name = host.encode("idna").decode("ascii") if not host.isascii() else host
    except UnicodeError:
        name = ""
    if not name or len(name) > 253 or not {*name.lower()} <= _HOST_LETTERS:
        raise ConfigError("--host", f"{host!r} is neither a host name nor an address")
    return x509.DNSName(name)


def write_file(path: Path, data: bytes, mode: int) -> None:
    """Replace a file as a whole; its mode is so before anything is in it.

    Raises:
        ConfigError: If it cannot be written; what was there is there still.
    """
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise ConfigError(str(path), f"cannot be written ({error.strerror})") from error
