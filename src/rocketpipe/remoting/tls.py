"""TLS contexts, and what becomes of them when their files change.

A new pair of certificate and key is built first; only when it is good does it take the old one's
place. Connections keep what they began with.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from weakref import WeakSet

from rocketpipe.background import running
from rocketpipe.clock import Clock
from rocketpipe.errors import ConfigError
from rocketpipe.metrics import Family, Kind, Series, single
from rocketpipe.remoting.certificate import CertificateError, certificates_in
from rocketpipe.remoting.handshakes import Handshakes
from rocketpipe.remoting.log_budget import LogBudget
from rocketpipe.remoting.tls_failure import TlsFailure, closed_early, why_failed
from rocketpipe.remoting.tls_settings import TlsConfig, TlsSettings
from rocketpipe.remoting.tls_stream import TlsStream, new_scratch

log = logging.getLogger(__name__)

LOOK_EVERY_MS: Final = 5000
_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "require": ssl.CERT_REQUIRED,
}


class ServerTls:
    """What the ports of a server share: its mode, and its context of the moment."""

    def __init__(
        self, config: TlsConfig, *, patience_s: float = 10.0, speaks: Sequence[str] = ()
    ) -> None:
        """``patience_s`` is how long a connection may take until TLS is there.

        What is spoken behind it may be agreed upon with it (ALPN): ``speaks`` names what it can be.

        Raises:
            ConfigError: If a file is not what it should be.
        """
        self.config = config
        self.mode = config.mode
        self.patience_s = patience_s
        self.handshakes = Handshakes()
        self.scratch = new_scratch()
        self._speaks = speaks
        self.context = server_context(config, speaks)
        #: How handshakes and first bytes ended, by a word for it.
        self.results: Counter[str] = Counter()
        self._refused = LogBudget()
        self._seen = _digest(self._files())
        _live.add(self)

    @classmethod
    @asynccontextmanager
    async def opened(
        cls, config: TlsConfig | None, clock: Clock, *, speaks: Sequence[str] = ()
    ) -> AsyncIterator[ServerTls | None]:
        """What the settings say, kept fresh inside the block; None where TLS is disabled.

        Raises:
            ConfigError: If a file is not what it should be.
        """
        if config is None or config.mode == "disabled":
            yield None
            return
        tls = cls(config, speaks=speaks)
        async with running(tls.keep_fresh(clock), "certificates"):
            yield tls

    @property
    def takes_plain(self) -> bool:
        return self.mode == "permissive"

    def stream(
        self, peer: asyncio.Protocol, done: Callable[[TlsFailure | None], None]
    ) -> TlsStream:
        """TLS for one who has connected."""
        return TlsStream(peer, self.context, self.scratch, done=done)

    def refused(self, address: str, result: str, reason: object) -> None:
        """Count, and tell, who was not let in."""
        self.results[result] += 1
        if self._refused.allows():
            log.warning(
                "connection refused peer=%s reason=%s%s",
                address,
                reason,
                self._refused.suppressed(),
            )

    def reload(self) -> bool:
        """Look at the files; True if what they have now is in force from here on."""
        seen = _digest(self._files())
        if seen == self._seen:
            return False
        self._seen = seen
        try:
            self.context = server_context(self.config, self._speaks)
        except ConfigError as error:
            log.error("certificate not renewed, the old one serves on reason=%s", error)
            return False
        log.info("certificate renewed file=%s", self.config.tls_cert)
        return True

    async def keep_fresh(self, clock: Clock) -> None:
        """Look at the files every now and then."""
        while True:
            await clock.sleep(LOOK_EVERY_MS)
            self.reload()

    def expires_s(self) -> int | None:
        """When the certificate ends, in seconds since 1970; None if it cannot be read."""
        try:
            first, *_ = certificates_in(Path(str(self.config.tls_cert)).read_bytes())
        except (OSError, CertificateError):
            return None
        return first.not_after_s

    def _files(self) -> list[Path]:
        config = self.config
        files = (
            config.tls_cert,
            config.tls_key,
            config.tls_client_ca,
            config.tls_key_password_file,
        )
        return [file for file in files if file is not None]


#: Those of this process: a signal is for all of them.
_live: WeakSet[ServerTls] = WeakSet()


def reload_all() -> None:
    """Have every server of this process look at its files now."""
    for tls in list(_live):
        tls.reload()


def families() -> Iterator[Family]:
    """What is measured of the servers of this process."""
    results: Counter[str] = Counter()
    ends = []
    for tls in list(_live):
        results += tls.results
        if (end := tls.expires_s()) is not None:
            ends.append(end)
    if _live:
        yield from measured(results, ends)


def measured(results: Mapping[str, int], ends: Sequence[int]) -> Iterator[Family]:
    """How handshakes ended, and when certificates do."""
    yield Family(
        "rocketpipe_tls_handshakes_total",
        Kind.COUNTER,
        "Connections to ports with TLS, by how they began.",
        [
            Series(results.get(result, 0), {"result": result})
            for result in sorted({"done", *results})
        ],
    )
    if ends:
        yield single(
            "rocketpipe_tls_certificate_expiry_seconds",
            Kind.GAUGE,
            "When the certificate ends, in seconds since 1970.",
            min(ends),
        )


class ClientTls:
    """TLS towards servers: the context of `TlsSettings`, built anew when their files change."""

    def __init__(self, settings: TlsSettings) -> None:
        """Nothing is read before the first connection."""
        self.settings = settings
        self._scratch = new_scratch()
        self._context: ssl.SSLContext | None = None
        self._seen: object = None

    def stream(
        self,
        peer: asyncio.Protocol | asyncio.BufferedProtocol,
        host: str,
        done: Callable[[TlsFailure | None], None],
    ) -> TlsStream:
        """TLS for a connection that is about to be made.

        Raises:
            ConfigError: If a file is not what it should be.
        """
        return TlsStream(peer, self.context(), self._scratch, host=host, done=done)

    def wrapped(self, connected: socket.socket, host: str) -> ssl.SSLSocket:
        """A connected socket of a thread, behind TLS.

        Raises:
            TlsFailure: If there is no TLS with who answers.
            ConfigError: If a file is not what it should be.
        """
        try:
            return self.context().wrap_socket(connected, server_hostname=host)
        except (ssl.SSLError, ssl.CertificateError) as error:
            raise why_failed(error, host) from error
        except ConnectionError as error:
            raise closed_early(error) from error

    def context(self) -> ssl.SSLContext:
        """The context of the files as they are.

        Raises:
            ConfigError: If one is not what it should be.
        """
        settings = self.settings
        names = (settings.ca_file, settings.cert_file, settings.key_file, settings.pinned_file)
        seen = [_stamp(name) for name in names if name is not None]
        if self._context is None or seen != self._seen:
            try:
                self._context = client_context(settings)
            except ConfigError as error:
                if self._context is None:
                    raise
                log.error("certificate not renewed, the old one serves on reason=%s", error)
            self._seen = seen
        return self._context


def server_context(config: TlsConfig, speaks: Sequence[str] = ()) -> ssl.SSLContext:
    """Build what a server needs; ``speaks`` is what it agrees upon for behind TLS.

    Raises:
        ConfigError: If a file is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _harden(context)
    assert config.tls_cert is not None, "TLS is on"
    assert config.tls_key is not None, "and has a key"
    _load_pair(context, config.tls_cert, config.tls_key, config.key_password)
    if config.tls_client_auth != "none":
        assert config.tls_client_ca is not None, "settings say so"
        _load_ca(context, config.tls_client_ca)
        context.verify_mode = _AUTH[config.tls_client_auth]
    if speaks:
        context.set_alpn_protocols(list(speaks))
    return context


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Build what a client needs.

    Raises:
        ConfigError: If a file is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _harden(context)
    if not settings.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif settings.ca_file is not None:
        _load_ca(context, Path(settings.ca_file))
    else:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    if settings.verify and settings.pinned_file is not None:
        _load_ca(context, Path(settings.pinned_file))
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if settings.cert_file is not None or settings.key_file is not None:
        cert, key = settings.cert_file or settings.key_file, settings.key_file
        _load_pair(context, Path(str(cert)), Path(str(key or cert)), settings.key_password)
    return context


def _harden(context: ssl.SSLContext) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION


def _load_ca(context: ssl.SSLContext, file: Path) -> None:
    try:
        context.load_verify_locations(cafile=str(file))
    except ssl.SSLError as error:
        raise ConfigError(str(file), "has no certificate in PEM form") from error
    except OSError as error:
        raise ConfigError(str(file), f"cannot be read ({error.strerror})") from error


def _load_pair(context: ssl.SSLContext, cert: Path, key: Path, password: str | None) -> None:
    for file in (cert, key):
        try:
            file.open("rb").close()
        except OSError as error:
            raise ConfigError(str(file), f"cannot be read ({error.strerror})") from error
    try:
        # A password is always given: OpenSSL would ask for one on the terminal.
        context.load_cert_chain(str(cert), str(key), lambda: password or "")
    except ssl.SSLError as error:
        reason = (error.reason or "").upper()
        if "MISMATCH" in reason:
            text = f"is not the key of the certificate in {cert}"
        elif b"ENCRYPTED" in key.read_bytes():
            text = "has a password, and the one given is not it: see tls.server.keyPassword"
        else:
            text = f"with {cert} is no pair of key and certificate in PEM form ({reason or error})"
        raise ConfigError(str(key), text) from error


def _digest(files: Iterable[Path]) -> bytes:
    digest = hashlib.sha256()
    for file in files:
        try:
            content = file.read_bytes()
        except OSError as error:
            content = str(error).encode()
        digest.update(b"%d:" % len(content) + content)
    return digest.digest()


def _stamp(name: str | Path) -> object:
    try:
        found = Path(name).stat()
    except OSError as error:
        return error.errno
    return found.st_ino, found.st_size, found.st_mtime_ns
