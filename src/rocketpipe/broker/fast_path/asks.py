"""What tells one pull from the next of the same consumer: where it reads, and its number.

A consumer asks for the same queue over and over, and its headers differ in three numbers, and in
the signature over them where there is one, which others have checked. With these cut out, what is
left of the header is a key under which everything else that the header says can be kept, once it
was read the long way.

``_asks.pyx`` is the compiled twin; see ``rocketpipe.compiled``.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from rocketpipe import compiled

#: Headers that are longer are read the long way.
MAX_HEADER_BYTES: Final = 1024
_INT32: Final = 1 << 31
#: Where a number may stand and how it may be written; everything else may be as good.
_OPAQUE: Final = re.compile(rb'"opaque":(0|-?[1-9][0-9]{0,17})(?=[,}])')
_QUEUE_OFFSET: Final = re.compile(rb'"queueOffset":"(0|-?[1-9][0-9]{0,17})"')
_COMMIT_OFFSET: Final = re.compile(rb'"commitOffset":"(0|-?[1-9][0-9]{0,17})"')
_SIGNATURE: Final = re.compile(rb'"Signature":"([^"]*)"')

#: What is left of the header, then opaque, queue offset and commit offset.
Ask: TypeAlias = tuple[bytes, int, int, int]


def read_ask(buffer: bytes, at: int, body: int) -> Ask | None:
    """Take the three numbers out of the header of the frame at ``at``; None if that is not easy.

    Each name is there once, and nothing in the header is written with a backslash, so that a name
    is where it seems to be.
    """
    header = buffer[at + 8 : body]
    if buffer[at + 4] or len(header) > MAX_HEADER_BYTES or b"\\" in header:
        return None
    found = []
    for name, pattern in (
        (b'"opaque":', _OPAQUE),
        (b'"queueOffset":', _QUEUE_OFFSET),
        (b'"commitOffset":', _COMMIT_OFFSET),
    ):
        number = pattern.search(header)
        if number is None or header.count(name) != 1:
            return None
        found.append(number)
    opaque, queue_offset, commit_offset = (int(number[1]) for number in found)
    if not -_INT32 <= opaque < _INT32:
        return None
    signature = _SIGNATURE.search(header)
    if signature is not None:
        found.append(signature)
    if header.count(b'"Signature":') != (signature is not None):
        return None
    rest, behind = b"", 0
    for start, end in sorted(text.span(1) for text in found):
        rest += header[behind:start]
        behind = end
    return rest + header[behind:], opaque, queue_offset, commit_offset


compiled.take_over(globals(), "rocketpipe.broker.fast_path._asks")
