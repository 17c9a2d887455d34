"""What a doctor makes of TLS: certificates that end soon or name others, keys that others read."""

from __future__ import annotations

import asyncio
import stat
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rocketpipe.cli.tls.probe import Met, NobodyAnswers, probe
from rocketpipe.client.admin.findings import Finding, ok, problem, unknown, warning
from rocketpipe.errors import ConfigError
from rocketpipe.remoting.certificate import CertificateError, certificates_in
from rocketpipe.remoting.tls_settings import TlsSettings

#: A certificate that ends so soon should be renewed now.
SOON_DAYS: Final = 30
_RENEW: Final = "renew it: servers take the new files within 5 s (`rocketpipe tls init` makes some)"


async def servers(addresses: Iterable[str], settings: TlsSettings) -> list[Finding]:
    """What clients meet at each of these."""
    found = await asyncio.gather(
        *(asyncio.to_thread(_server, address, settings) for address in sorted(set(addresses)))
    )
    return [each for several in found for each in several]


def files(settings: TlsSettings) -> list[Finding]:
    """What this client shows, and who else may read its key."""
    found = []
    if settings.key_file is not None:
        found.append(key_file(Path(settings.key_file)))
    if settings.cert_file is not None:
        found.append(certificate_file(Path(settings.cert_file)))
    return found


def key_file(path: Path) -> Finding:
    """Whether a key is its owner's alone."""
    what = f"key {path}"
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        return problem(what, f"cannot be read ({error.strerror})", "name another, or its owner")
    if mode & 0o077:
        return problem(what, f"others may read it (mode {mode:03o})", f"chmod 600 {path}")
    return ok(what, "nobody else may read it")


def certificate_file(path: Path, now_s: float | None = None) -> Finding:
    """Whether a certificate is good for some time yet."""
    what = f"certificate {path}"
    try:
        first, *_ = certificates_in(path.read_bytes())
    except (OSError, CertificateError) as error:
        return problem(what, f"cannot be read ({error})", "name a file in PEM form")
    now_s = time.time() if now_s is None else now_s
    return _by_days(what, int((first.not_after_s - now_s) // 86_400))


def judged(met: Met, now_s: float | None = None) -> list[Finding]:
    """What to make of what a client met."""
    what = f"TLS of {met.address}"
    if not met.speaks_tls:
        return [warning(what, "there is none", "set tls.server.certPath and keyPath there")]
    found = []
    if met.problem:
        found.append(problem(what, met.problem, f"rocketpipe tls check {met.address}"))
    if met.takes_plain:
        found.append(
            warning(
                what,
                "plain connections are taken too: what they carry can be read and changed",
                "tls.server.mode=enforcing, when all clients speak TLS",
            )
        )
    if (days := met.days_left(now_s)) is not None:
        found.append(_by_days(f"certificate of {met.address}", days))
    return found


def _by_days(what: str, days: int) -> Finding:
    if days < 0:
        return problem(what, f"it ended {-days} days ago", _RENEW)
    if days < SOON_DAYS:
        return warning(what, f"it ends in {days} days", _RENEW)
    return ok(what, f"good for {days} days")


def _server(address: str, settings: TlsSettings) -> list[Finding]:
    try:
        return judged(probe(address, settings))
    except (NobodyAnswers, ConfigError, ValueError) as error:
        return [unknown(f"TLS of {address}", str(error))]
