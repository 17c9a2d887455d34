"""Who calls by gRPC, as its headers say it.

    authorization    MQv2-HMAC-SHA1 Credential=KEY[/…], SignedHeaders=x-mq-date-time, Signature=HEX
    x-mq-date-time   20231114T221320Z, or as RFC 3339 has it: all that is signed

Clients in Java, Go, Python and C# write their local time and a Z behind it, and calls of one second
share a signature. So neither can be known whether one was seen before, nor by which zone a time is
meant: it has to be that of now in some zone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

AUTHORIZATION: Final = "authorization"
DATE_TIME: Final = "x-mq-date-time"
SESSION_TOKEN: Final = "x-mq-session-token"  # noqa: S105 - the name of a header
ALGORITHM: Final = "MQv2-HMAC-SHA1"
SIGNATURE_DIGITS: Final = 40

_MAX_HEADER: Final = 4096
_MINUTE_MS: Final = 60_000
_SLACK_MS: Final = 5 * _MINUTE_MS
_ZONES_MS: Final = 15 * _MINUTE_MS
#: Zones go from twelve hours behind UTC to fourteen ahead of it.
_WEST_MS: Final = 12 * 60 * _MINUTE_MS
_EAST_MS: Final = 14 * 60 * _MINUTE_MS
_COMPACT: Final = re.compile(r"\d{8}T\d{6}Z", re.ASCII)


class CallSignature(NamedTuple):
    """Whose signature it is, and the signature in hex, both as the caller says."""

    access_key: str
    signature: str


def read_authorization(text: str) -> CallSignature:
    """Take a header apart; what is not there is empty."""
    found: dict[str, str] = {}
    _, _, items = text[:_MAX_HEADER].partition(" ")
    for item in items.split(","):
        name, _, value = item.strip().partition("=")
        found.setdefault(name, value)
    key, _, _ = found.get("Credential", "").partition("/")
    return CallSignature(key, found.get("Signature", "").lower())


def is_timely(stamp: str, now_ms: int) -> bool:
    """Whether a stamp is of now, give or take five minutes, in some zone of the world."""
    try:
        if _COMPACT.fullmatch(stamp):
            moment = datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        else:
            moment = datetime.fromisoformat(stamp[:64])
            if moment.tzinfo is None:
                return False
            return abs(moment.timestamp() * 1000 - now_ms) <= _SLACK_MS
        ahead_ms = int(moment.timestamp() * 1000) - now_ms
    except (ValueError, OverflowError):
        return False
    if not -_WEST_MS - _SLACK_MS <= ahead_ms <= _EAST_MS + _SLACK_MS:
        return False
    return (ahead_ms + _SLACK_MS) % _ZONES_MS <= 2 * _SLACK_MS
