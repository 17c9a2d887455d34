"""Messages that go together: what a batch holds, and the body of the one send that it becomes.

Of a plain message a batch holds the body and the text of its properties up to the value of the
unique key; the keys are made when the batch goes, all at once. Producers that send much at once
send many alike, so what stands around a body is written once for as many as have the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from rocketpipe.client.producer.result import SendResult
from rocketpipe.client.producer.sending.outgoing import ENTRY_BYTES, Outgoing
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.batch import entry_ends

#: Body, and the text that ``PlainTexts`` gave for it.
Plain: TypeAlias = tuple[bytes, str]
Part: TypeAlias = Outgoing | Plain

_END: Final = b"\x02"


class BatchKey(NamedTuple):
    """What messages of one batch agree in."""

    topic: str
    #: None where any queue will do.
    queue: MessageQueue | None
    wait_stored: bool


#: A topic alone: any queue of it, and the messages wait until they are stored.
Key: TypeAlias = str | BatchKey


def key_of(out: Outgoing, queue: MessageQueue | None) -> Key:
    """What a message must have in common with others to go with them."""
    if queue is None and out.wait_stored:
        return out.topic
    return BatchKey(out.topic, queue, out.wait_stored)


class PendingBatch:
    """Messages of one key, and who waits for each."""

    __slots__ = ("deadline_ms", "loop", "parts", "size", "timeout_ms", "timer", "waiting")

    def __init__(self, timeout_ms: int, now_ms: int) -> None:
        """Begin one for a message that has so much time from now on."""
        #: Asked for once: that takes a system call.
        self.loop = asyncio.get_running_loop()
        self.parts: list[Part] = []
        self.waiting: list[asyncio.Future[SendResult]] = []
        #: As entries of a batch.
        self.size = 0
        self.timeout_ms = timeout_ms
        #: The first of its messages that runs out of time.
        self.deadline_ms = now_ms + timeout_ms
        self.timer: asyncio.Task[None] | None = None

    @property
    def held_bytes(self) -> int:
        """What its messages took of the room that a producer has."""
        return self.size - ENTRY_BYTES * len(self.parts)

    def settle(self, results: Sequence[SendResult]) -> None:
        """Give each who still waits its result."""
        assert len(results) == len(self.waiting), "a result for each message"
        for waiting, result in zip(self.waiting, results, strict=True):
            if not waiting.done():
                waiting.set_result(result)

    def fail(self, error: Exception) -> None:
        """Tell each who still waits why there will be no result."""
        for waiting in self.waiting:
            if not waiting.done():
                waiting.set_exception(error)

    def cancel(self) -> None:
        """Nobody will know what became of its messages."""
        for waiting in self.waiting:
            waiting.cancel()


def written(parts: Sequence[Part], keys: Sequence[str]) -> tuple[bytes, list[str]]:
    """The body of one send of all parts, and their ids; there is a key for each that is plain."""
    pieces: list[bytes] = []
    ids = list(keys)
    known_text, known_bytes, head, between = "", -1, b"", b""
    for at, part in enumerate(parts):
        if type(part) is tuple:
            body, text = part
            if text is not known_text or len(body) != known_bytes:
                known_text, known_bytes = text, len(body)
                head, between = entry_ends(known_bytes, len(text) + len(keys[at]) + 1)
                between += text.encode()
            pieces += (head, body, between, keys[at].encode(), _END)
        else:
            assert isinstance(part, Outgoing)
            ids[at] = part.message_id
            properties = part.properties.encode()
            before, after = entry_ends(len(part.body), len(properties), part.flag)
            pieces += (before, part.body, after, properties)
    return b"".join(pieces), ids
