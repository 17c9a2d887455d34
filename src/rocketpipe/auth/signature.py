"""The signature of a request, as RocketMQ's clients make it.

    content    the values of all header fields in the order of their names, then the body
    Signature  base64 of HMAC-SHA1 of the content, with the secret as its key

It has neither a time nor the request's code in it: whoever hears a signed request can send it
again. What that means is in ``docs/explanation/security.md``.
"""

from __future__ import annotations

import hashlib
import hmac
from binascii import b2a_base64, hexlify
from collections.abc import Mapping
from typing import Final

from rocketpipe.auth.secret import HIDDEN, Secret
from rocketpipe.protocol.codes import PeerVersion

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
TOKEN: Final = "SecurityToken"  # noqa: S105 - the name of a field
_UNIQUE_KEY_QUERY: Final = "_UNIQUE_KEY_QUERY"

SIGNATURE_CHARACTERS: Final = 28
HASH_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(each ^ 0x36 for each in range(256))
_OUTER: Final = bytes(each ^ 0x5C for each in range(256))


def hash_block(secret: Secret) -> bytes:
    """A secret as HMAC-SHA1 begins with it: as long as what the hash takes at once."""
    key = secret.reveal().encode()
    if len(key) > HASH_BLOCK_BYTES:
        key = hashlib.sha1(key, usedforsecurity=False).digest()
    return key.ljust(HASH_BLOCK_BYTES, b"\0")


class SigningKey:
    """A secret, made ready: a check copies two hash states in the place of making them."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret: Secret) -> None:
        key = hash_block(secret)
        self._inner = hashlib.sha1(key.translate(_INNER), usedforsecurity=False)
        self._outer = hashlib.sha1(key.translate(_OUTER), usedforsecurity=False)

    def __repr__(self) -> str:
        return HIDDEN

    def digest(self, *parts: bytes) -> bytes:
        """HMAC-SHA1 of the parts, one behind the other."""
        inner = self._inner.copy()
        for part in parts:
            inner.update(part)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return outer.digest()

    def sign(self, *parts: bytes) -> str:
        """Give it as a header field has it."""
        return b2a_base64(self.digest(*parts), newline=False).decode()


def content_of(fields: Mapping[str, str], without: frozenset[str] = frozenset()) -> bytes:
    """What is signed of header fields; the body goes behind it."""
    names = [name for name in fields if name != SIGNATURE and name not in without]
    if "".join(names).isascii():
        names.sort()
    else:
        # Java's order, which is that of UTF-16.
        names.sort(key=lambda name: name.encode("utf-16-be", "surrogatepass"))
    # Half a surrogate pair is a question mark, as it is in Java.
    return "".join([fields[name] for name in names]).encode("utf-8", "replace")


def signed(
    fields: Mapping[str, str], body: bytes, access_key: str, key: SigningKey
) -> dict[str, str]:
    """Give the header fields with who asks, and the signature over all of it."""
    whole = {name: text for name, text in fields.items() if name != SIGNATURE}
    whole[ACCESS_KEY] = access_key
    whole[SIGNATURE] = key.sign(content_of(whole), body)
    return whole


def contents(fields: Mapping[str, str], version: int) -> list[bytes]:
    """What clients may have signed of these fields, by their version; mostly one."""
    without = frozenset({_UNIQUE_KEY_QUERY} if version <= PeerVersion.V4_9_3 else ())
    found = [content_of(fields, without)]
    if TOKEN in fields:  # Go transmits it, and does not sign it
        found.append(content_of(fields, without | {TOKEN}))
    return found


def verifies(key: SigningKey, fields: Mapping[str, str], body: bytes, version: int) -> bool:
    """Tell whether the signature among the fields is one of this key over all of them."""
    given = fields.get(SIGNATURE, "").encode("utf-8", "replace")
    good = False
    for content in contents(fields, version):
        good |= hmac.compare_digest(key.sign(content, body).encode(), given)
    return good


def sign_date(key: SigningKey, stamp: str) -> str:
    """Give the signature of a gRPC call, of its ``x-mq-date-time``."""
    return hexlify(key.digest(stamp.encode())).decode()
