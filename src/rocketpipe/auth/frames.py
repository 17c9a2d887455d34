"""What is signed of a frame, read from its bytes: for the requests that a fast path may take.

``_frames.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

import json
from typing import Any, Final, TypeAlias

from rocketpipe import compiled
from rocketpipe.auth.signature import ACCESS_KEY, SIGNATURE, SIGNATURE_CHARACTERS, content_of

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
#: Not signed by everyone, or of no use.
_ODD: Final = frozenset({"_UNIQUE_KEY_QUERY", "SecurityToken"})

#: Code, access key, signature, what is signed, topic and group.
Signed: TypeAlias = tuple[int, str, bytes, bytes, str, str]


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


compiled.take_over(globals(), "rocketpipe.auth._frames")
