"""One stream of an HTTP/2 connection: what has come on it, and what waits to go."""

from __future__ import annotations

from typing import Any

from rocketpipe.proxy.http2.frames import USUAL_WINDOW
from rocketpipe.proxy.http2.hpack import Header


class Stream:
    """What a connection knows of one stream."""

    __slots__ = (
        "allowed",
        "body",
        "ends",
        "header_bytes",
        "headers",
        "is_over",
        "last",
        "number",
        "owner",
        "seen",
        "sent",
        "unsent",
        "window",
    )

    def __init__(
        self, number: int, headers: list[Header] | None, header_bytes: int, window: int
    ) -> None:
        self.number = number
        #: None if they were too many.
        self.headers = headers
        self.header_bytes = header_bytes
        #: What has come and nobody has taken yet.
        self.body = bytearray()
        #: What the peer may still send.
        self.allowed = USUAL_WINDOW
        #: Whether the peer has said all.
        self.ends = False
        #: What we may still send, what waits for that, and the headers that go behind it.
        self.window = window
        self.unsent: memoryview | bytes = b""
        self.last: bytes | None = None
        #: How much went in all, and how much had when somebody last looked.
        self.sent = 0
        self.seen = 0
        self.is_over = False
        #: Whoever serves it.
        self.owner: Any = None
