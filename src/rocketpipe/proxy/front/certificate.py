"""What TLS the gRPC port has: the operator's, or with a certificate that the server makes itself.

Clients of version 5 come with TLS switched on and look at no certificate, unless they are told
otherwise. So a port without settings has one too, as Apache's has; here it is made once and kept,
so that whoever does look can trust the ``ca.pem`` beside it.
"""

from __future__ import annotations

import datetime
import logging
import socket
from pathlib import Path
from typing import Final

from rocketpipe.errors import ConfigError
from rocketpipe.remoting.authority import Authority, Pair
from rocketpipe.remoting.certificate import CertificateError, certificates_in
from rocketpipe.remoting.tls_settings import TlsConfig

log = logging.getLogger(__name__)

#: A pair that ends within so many days is made anew at a start.
_RENEW_DAYS: Final = 30


def port_tls(given: TlsConfig | None, directory: Path, host: str) -> TlsConfig | None:
    """The settings of the port, of which ``host`` is where it listens; None for plaintext alone.

    Those that are ``given`` hold. Where nothing is said, both kinds are taken, with a certificate
    that is kept in ``directory``.

    Raises:
        ConfigError: If the directory cannot be used, or the extra ``tls`` is missing.
    """
    if given is not None and (given.tls_mode is not None or given.tls_cert is not None):
        return None if given.mode == "disabled" else given
    pair = own_pair(directory, host)
    return TlsConfig(tls_mode="permissive", tls_cert=pair.cert, tls_key=pair.key)


def own_pair(directory: Path, host: str) -> Pair:
    """The pair of a directory, made there if there is none, or none for long any more.

    Raises:
        ConfigError: If the directory cannot be used, or the extra ``tls`` is missing.
    """
    authority = Authority.opened(directory)
    pair = authority.pair("server")
    if not (pair.key.exists() and _is_good(pair.cert)):
        pair = _made(authority, [socket.gethostname(), host])
        log.info("certificate made for gRPC file=%s ca=%s", pair.cert, authority.ca_file)
    return pair


def _made(authority: Authority, hosts: list[str]) -> Pair:
    try:
        return authority.server(hosts)
    except ConfigError:  # machines have names that no certificate can have
        return authority.server(hosts[1:])


def _is_good(cert: Path) -> bool:
    try:
        first, *_ = certificates_in(cert.read_bytes())
    except (OSError, CertificateError):
        return False
    now = datetime.datetime.now(datetime.UTC)
    return first.not_after_s > (now + datetime.timedelta(days=_RENEW_DAYS)).timestamp()
