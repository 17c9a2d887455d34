"""What is signed of a frame, read from its bytes: for the requests that a fast path may take.

``_frames.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from hmac import compare_digest
from typing import Any, Final, Protocol, TypeAlias

from rocketpipe import compiled
from rocketpipe.auth.behalf import FROM_ADDRESS
from rocketpipe.auth.secret import HIDDEN, Secret
from rocketpipe.auth.signature import (
    ACCESS_KEY,
    SIGNATURE,
    SIGNATURE_CHARACTERS,
    SigningKey,
    content_of,
)
from rocketpipe.protocol.connection import Frame

#: A header with more fields, or longer, is for the router.
MAX_FIELDS: Final = 24
MAX_HEADER_BYTES: Final = 4096
#: Which fields name the topic and the group, by code.
_NAMED: Final = {
    10: ("topic", ""),
    310: ("b", ""),
    320: ("b", ""),
    11: ("topic", "consumerGroup"),
    361: ("topic", "consumerGroup"),
    200051: ("topic", "consumerGroup"),
}
#: Not signed by everyone, or of no use, or from elsewhere than its connection.
_ODD: Final = frozenset({"_UNIQUE_KEY_QUERY", "SecurityToken", FROM_ADDRESS})

#: Those that are one send, or one batch of them, in short names.
_SENDS: Final = frozenset({310, 320})

#: Code, access key, signature, what is signed, topic and group.
Signed: TypeAlias = tuple[int, str, bytes, bytes, str, str]
#: Code, user, topic and group.
Grant: TypeAlias = tuple[int, str, str, str]


class Visit(Protocol):
    """What is remembered of a connection."""

    grants: set[Grant]


class Asked(Protocol):
    """Who knows users and rights."""

    #: Those that have come, by name.
    signers: dict[str, Signer]

    def signer(self, name: str) -> Signer:
        """Give the one of this name; of a name that nobody has one who is not let in."""

    def is_before(self, moment_ms: int) -> bool:
        """Tell whether that moment is yet to come."""

    def grants(self, visit: Any, grant: Grant) -> bool:
        """Tell whether somebody may, and remember it if so."""


def read_signed(buffer: bytes, at: int, body: int, end: int) -> Signed | None:
    """Read a frame at ``at`` with a body from ``body`` to ``end``, if a fast path may take it.

    None for any other, and for one that is at all unusual: a name that is there twice, a value that
    is not a string of ASCII characters, a topic that is not named.
    """
    header = buffer[at + 8 : body]
    if buffer[at + 4] or len(header) > MAX_HEADER_BYTES or not header.isascii():
        return None
    try:
        found = json.loads(header, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    code, fields = found.get("code"), found.get("extFields")
    if type(code) is not int or code not in _NAMED or not isinstance(fields, dict):
        return None
    if len(fields) > MAX_FIELDS or not _ODD.isdisjoint(fields):
        return None
    for name, text in fields.items():
        if not isinstance(text, str) or not (name.isascii() and text.isascii()):
            return None
    topic, group = (fields.get(name, "") for name in _NAMED[code])
    signature = fields.get(SIGNATURE, "")
    if not fields.get(ACCESS_KEY) or not topic or len(signature) != SIGNATURE_CHARACTERS:
        return None
    content = content_of(fields) + buffer[body:end]
    return code, fields[ACCESS_KEY], signature.encode(), content, topic, group


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is there twice")
    return found


class Signer:
    """A user, as far as each of its frames is looked at."""

    __slots__ = ("_key", "_old", "checks", "does_all", "lets_in", "old_until_ms")

    def __init__(
        self,
        secret: Secret,
        *,
        lets_in: bool,
        does_all: bool,
        old: Secret | None = None,
        old_until_ms: int = 0,
    ) -> None:
        self._key = SigningKey(secret)
        self._old = None if old is None else SigningKey(old)
        self.old_until_ms = old_until_ms
        self.lets_in = lets_in
        self.does_all = does_all
        #: How often a signature was compared.
        self.checks = 0

    def __repr__(self) -> str:
        return HIDDEN

    def made(self, signature: bytes, content: bytes, gate: Asked) -> bool:
        """Tell whether this is its signature, by the secret that it has, or had until now."""
        self.checks += 1
        if _is_by(self._key, signature, content):
            return True
        if self._old is None or not _is_by(self._old, signature, content):
            return False
        return gate.is_before(self.old_until_ms)


def _is_by(key: SigningKey, signature: bytes, content: bytes) -> bool:
    return compare_digest(b2a_base64(key.digest(content), newline=False), signature)


def clear_run(
    buffer: bytes, frames: list[Frame], start: int, sends_only: bool, gate: Asked, visit: Visit
) -> int:
    """Give the number of the first frame, from ``start`` on, that may not enter a fast path.

    Each signature is checked, of whoever is not known too: a long body would tell. ``sends_only``
    ends at any other request.
    """
    for number in range(start, len(frames)):
        found = read_signed(buffer, *frames[number])
        if found is None:
            return number
        code, name, signature, content, topic, group = found
        if sends_only and code not in _SENDS:
            return number
        signer = gate.signers.get(name) or gate.signer(name)
        if not signer.made(signature, content, gate) or not signer.lets_in:
            return number
        if not signer.does_all:
            grant = (code, name, topic, group)
            if grant not in visit.grants and not gate.grants(visit, grant):
                return number
    return len(frames)


compiled.take_over(globals(), "rocketpipe.auth._frames")
