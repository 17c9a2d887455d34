"""The first bytes of a connection to the gRPC port: HTTP/2's preface, or what else came instead.

Whoever speaks HTTP/2 begins with the same 24 bytes. Nothing is opened for a connection before they
are there, and one that begins otherwise is told what this port is, in its own words where it has
some: HTTP/1.1 gets a status line, TLS an alert, RocketMQ's other protocol the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.proxy.http2.frames import PREFACE

_TEXT: Final = (
    "This port speaks gRPC (HTTP/2), for RocketMQ's clients of version 5. "
    "Health and metrics have a port of their own: --http.\n"
)
_HTTP_ANSWER: Final = (
    "HTTP/1.1 505 HTTP Version Not Supported\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(_TEXT)}\r\n"
    "Connection: close\r\n"
    f"\r\n{_TEXT}"
).encode()
#: A fatal alert: handshake failure.
_TLS_ALERT: Final = b"\x15\x03\x01\x00\x02\x02\x28"
_HANDSHAKE: Final = 0x16
_METHODS: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"OPTI", b"DELE", b"PATC", b"CONN", b"TRAC")


@dataclass(frozen=True, slots=True)
class Stranger:
    """One who does not speak HTTP/2: a word to count them by, why they go, and a last answer."""

    word: str
    reason: str
    answer: bytes = b""


def stranger(first: bytes, *, behind_tls: bool) -> Stranger | None:
    """Who sent these first bytes; None as long as they may become the preface, or are it."""
    if PREFACE.startswith(first[: len(PREFACE)]):
        return None
    if first[0] == _HANDSHAKE and not behind_tls:
        reason = "it speaks TLS, and tls.server.mode is disabled"
        return Stranger("tls", reason, _TLS_ALERT)
    if first[0] == 0:
        reason = "it speaks remoting, RocketMQ's other protocol: brokers have a port for that"
        return Stranger("remoting", reason)
    if first.startswith(_METHODS):
        return Stranger("http", "it speaks HTTP/1.1, and this port gRPC", _HTTP_ANSWER)
    if any(method.startswith(first) for method in _METHODS):
        return None  # too few to tell
    return Stranger("unknown", "what it sent is no HTTP/2")
