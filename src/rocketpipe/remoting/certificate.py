"""A certificate, as far as people ask about it: whose it is, for which names, and until when.

Python shows that of certificates it trusts alone, and those are not the ones in question. So this
reads the few fields by itself (X.509 is a tree of tag, length and content) and judges nothing: that
is OpenSSL's.
"""

from __future__ import annotations

import base64
import binascii
import calendar
import ipaddress
import re
import time
from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import RocketPipeError

_PEM: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s+([A-Za-z0-9+/=\s]+?)-----END CERTIFICATE-----"
)
_COMMON_NAME: Final = bytes.fromhex("550403")
_ALT_NAMES: Final = bytes.fromhex("551d11")
_CONSTRAINTS: Final = bytes.fromhex("551d13")
_EXTENSIONS: Final = 0xA3
_DNS, _IP = 0x82, 0x87
_UTC_TIME, _TIME = 0x17, 0x18
_MAX_BYTES: Final = 1 << 20


class CertificateError(RocketPipeError):
    """What should be a certificate is none."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """What it says of itself; times are seconds since 1970."""

    subject: str
    issuer: str
    #: DNS names and addresses that it is for.
    names: tuple[str, ...]
    not_before_s: int
    not_after_s: int
    is_ca: bool

    def is_for(self, host: str) -> bool:
        """Whether a client that connects to ``host`` takes it for that one's."""
        wanted = _address(host) or host.lower().rstrip(".")
        for name in self.names:
            if (_address(name) or name.lower()) == wanted:
                return True
            first, _, rest = wanted.partition(".")
            if name.startswith("*.") and first and rest == name[2:].lower():
                return True
        return False


def certificates_in(data: bytes) -> list[Certificate]:
    """All certificates of a PEM file, in their order.

    Raises:
        CertificateError: If there is none, or one cannot be read.
    """
    found = []
    for block in _PEM.findall(data[:_MAX_BYTES]):
        try:
            found.append(certificate_of(base64.b64decode(block)))
        except binascii.Error as error:
            raise CertificateError("a certificate that is no base64") from error
    if not found:
        raise CertificateError("no certificate in PEM form")
    return found


def certificate_of(der: bytes) -> Certificate:
    """Read one in its binary form.

    Raises:
        CertificateError: If it cannot be read.
    """
    try:
        return _read(der)
    except (IndexError, ValueError, UnicodeDecodeError) as error:
        raise CertificateError(f"no certificate: {error}") from error


def _read(der: bytes) -> Certificate:
    ((_, whole),) = _parts(der)[:1]
    fields = _parts(_parts(whole)[0][1])
    if fields[0][0] == 0xA0:  # the version
        fields = fields[1:]
    _, _, (_, issuer), (_, validity), (_, subject), _, *rest = fields
    begins, ends = _parts(validity)[:2]
    names: list[str] = []
    is_ca = False
    for tag, content in rest:
        if tag != _EXTENSIONS:
            continue
        for _, extension in _parts(_parts(content)[0][1]):
            (_, oid), *_, (_, value) = _parts(extension)
            if oid == _ALT_NAMES:
                names = _alt_names(_parts(value)[0][1])
            elif oid == _CONSTRAINTS:
                is_ca = any(
                    tag == 0x01 and flag != b"\0" for tag, flag in _parts(_parts(value)[0][1])
                )
    return Certificate(
        _common_name(subject),
        _common_name(issuer),
        tuple(names),
        _time(*begins),
        _time(*ends),
        is_ca,
    )


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """Tags and contents that lie one behind the other."""
    parts, at = [], 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4:
                raise ValueError("a length that is none")
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + size > len(data):
            raise ValueError("it ends too early")
        parts.append((tag, data[at : at + size]))
        at += size
    return parts


def _common_name(name: bytes) -> str:
    for _, group in _parts(name):
        for _, pair in _parts(group):
            (_, oid), (_, value) = _parts(pair)[:2]
            if oid == _COMMON_NAME:
                return value.decode("utf-8", "replace")
    return ""


def _alt_names(data: bytes) -> list[str]:
    names = []
    for tag, content in _parts(data):
        if tag == _DNS:
            names.append(content.decode("ascii", "replace"))
        elif tag == _IP and len(content) in (4, 16):
            names.append(str(ipaddress.ip_address(content)))
    return names


def _time(tag: int, content: bytes) -> int:
    text = content.decode("ascii")
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    elif tag != _TIME:
        raise ValueError("a time that is none")
    return calendar.timegm(time.strptime(text, "%Y%m%d%H%M%SZ"))


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return None
