"""What a client would meet at a port: whether TLS, plain or both, and whose certificate.

It asks three times, each on a connection of its own: with TLS and whoever answers, with TLS as a
client does that checks, and without. The question is a request that no server knows, so that it
changes nothing; that it is answered at all is the answer.
"""

from __future__ import annotations

import dataclasses
import socket
import ssl
import time
from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import ConfigError
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.remoting.caller import split_address
from rocketpipe.remoting.certificate import Certificate, CertificateError, certificate_of
from rocketpipe.remoting.tls import ClientTls
from rocketpipe.remoting.tls_failure import TlsFailure, why_failed
from rocketpipe.remoting.tls_settings import TlsSettings

TIMEOUT_S: Final = 5.0
_QUESTION: Final = encode_frame(Command(code=0, opaque=1))
_DAY_S: Final = 86_400


class NobodyAnswers(ConfigError):
    """There is no connection at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """What was found."""

    address: str
    #: Whether it answers to TLS, and without.
    speaks_tls: bool
    takes_plain: bool
    version: str = ""
    cipher: str = ""
    certificate: Certificate | None = None
    wants_certificate: bool = False
    #: Why a client that checks would not be let in, or not stay; empty if it would.
    problem: str = ""

    @property
    def mode(self) -> str:
        """What `tls.server.mode` is there, as far as that can be seen."""
        if self.speaks_tls:
            return "permissive" if self.takes_plain else "enforcing"
        return "disabled" if self.takes_plain else "unknown"

    def days_left(self, now_s: float | None = None) -> int | None:
        """For how long the certificate is good; negative if it no longer is."""
        if self.certificate is None:
            return None
        now_s = time.time() if now_s is None else now_s
        return int((self.certificate.not_after_s - now_s) // _DAY_S)


def probe(address: str, settings: TlsSettings, timeout_s: float = TIMEOUT_S) -> Met:
    """Ask at an address, as a client with these settings would.

    Raises:
        ValueError: If it is no address.
        NobodyAnswers: If there is no connection.
        ConfigError: If a file of the settings is not what it should be.
    """
    host, port = split_address(address)
    takes_plain = _answers(_connected(address, timeout_s))
    loose = ClientTls(dataclasses.replace(settings, verify=False, ca_file=None))
    version = cipher = problem = ""
    certificate, wants = None, False
    try:
        with loose.wrapped(_connected(address, timeout_s), host) as secured:
            version = secured.version() or ""
            cipher = (secured.cipher() or ("",))[0]
            try:
                certificate = certificate_of(secured.getpeercert(binary_form=True) or b"")
            except CertificateError as error:
                problem = f"its certificate cannot be read: {error}"
            try:
                secured.sendall(_QUESTION)
                secured.recv(1)
            except ssl.SSLError as error:
                problem = str(why_failed(error, host))
            except OSError:
                pass  # it does not answer such a question, which is another matter
    except TlsFailure as failure:
        problem = str(failure)
    wants = "wants a client certificate" in problem
    speaks = bool(version) or wants
    if speaks and settings.verify and not problem:
        problem = _problem_with(address, settings, timeout_s)
    return Met(
        address=f"{host}:{port}" if ":" not in host else f"[{host}]:{port}",
        speaks_tls=speaks,
        takes_plain=takes_plain,
        version=version,
        cipher=cipher,
        certificate=certificate,
        wants_certificate=wants,
        problem=problem,
    )


def _problem_with(address: str, settings: TlsSettings, timeout_s: float) -> str:
    try:
        host, _ = split_address(address)
        ClientTls(settings).wrapped(_connected(address, timeout_s), host).close()
    except TlsFailure as failure:
        return str(failure)
    return ""


def _connected(address: str, timeout_s: float) -> socket.socket:
    try:
        return socket.create_connection(split_address(address), timeout_s)
    except OSError as error:
        raise NobodyAnswers(address, f"no connection ({error.strerror or error})") from error


def _answers(connected: socket.socket) -> bool:
    with connected:
        try:
            connected.sendall(_QUESTION)
            return bool(connected.recv(1))
        except OSError:
            return False
