"""The offsets that an answer to a pop carries as text.

Entries are joined by ``;``, their parts by a blank. The first part, here ``retry``, says where a
queue belongs: 0 the topic, 1 its retry topic of the old form, 2 of the new form.

    start offsets     retry queueId offset                     where the pop began
    message offsets   retry queueId offset,offset,…            what it took
    order counts      retry queueId count                      attempts before, of a queue
                      retry qo<queueId>%<offset> count         attempts before, of a message
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import HeaderError
from rocketpipe.model.offsets import QueueOffset

#: More entries in one text than any pop could give are refused.
MAX_ENTRIES: Final = 1 << 16

_RETRIES: Final = {"0": 0, "1": 1, "2": 2}
_ONE_MESSAGE: Final = "qo"


@dataclass(frozen=True, slots=True, order=True)
class PoppedQueue:
    """A queue of the popped topic (``retry`` 0), or of one of its retry topics (1, 2)."""

    retry: int
    queue_id: int


@dataclass(frozen=True, slots=True, order=True)
class PoppedMessage:
    """One message of a popped queue."""

    queue: PoppedQueue
    offset: QueueOffset


def write_start_offsets(starts: Mapping[PoppedQueue, QueueOffset]) -> str:
    """Write where the pop began in each queue."""
    return ";".join(f"{at.retry} {at.queue_id} {start}" for at, start in starts.items())


def read_start_offsets(text: str) -> dict[PoppedQueue, QueueOffset]:
    """Read where the pop began in each queue.

    Raises:
        HeaderError: If the text has another form, or names a queue twice.
    """
    return {queue: QueueOffset(_number(last)) for queue, last in _queues(text)}


def write_message_offsets(taken: Mapping[PoppedQueue, Sequence[QueueOffset]]) -> str:
    """Write what the pop took from each queue."""
    return ";".join(
        f"{at.retry} {at.queue_id} {','.join(map(str, offsets))}" for at, offsets in taken.items()
    )


def read_message_offsets(text: str) -> dict[PoppedQueue, list[QueueOffset]]:
    """Read what the pop took from each queue.

    Raises:
        HeaderError: If the text has another form, or names a queue twice.
    """
    if text.count(",") >= MAX_ENTRIES:
        raise HeaderError(f"a pop of more than {MAX_ENTRIES} messages")
    return {
        queue: [QueueOffset(_number(offset)) for offset in last.split(",")]
        for queue, last in _queues(text)
    }


def write_order_counts(counts: Mapping[PoppedQueue | PoppedMessage, int]) -> str:
    """Write how many attempts there were before, of whole queues or single messages."""
    return ";".join(f"{_order_key(at)} {count}" for at, count in counts.items())


def read_order_counts(text: str) -> dict[PoppedQueue | PoppedMessage, int]:
    """Read how many attempts there were before, of whole queues or single messages.

    Raises:
        HeaderError: If the text has another form, or names a queue or message twice.
    """
    counts: dict[PoppedQueue | PoppedMessage, int] = {}
    for retry, place, last in _entries(text):
        key: PoppedQueue | PoppedMessage
        if place.startswith(_ONE_MESSAGE):
            queue_id, percent, offset = place.removeprefix(_ONE_MESSAGE).partition("%")
            if not percent:
                raise HeaderError(f"{place[:40]!r} names no message")
            queue = PoppedQueue(retry, _number(queue_id))
            key = PoppedMessage(queue, QueueOffset(_number(offset)))
        else:
            key = PoppedQueue(retry, _number(place))
        if key in counts:
            raise HeaderError(f"order counts name {place[:40]} twice")
        counts[key] = _number(last)
    return counts


def _order_key(at: PoppedQueue | PoppedMessage) -> str:
    if isinstance(at, PoppedQueue):
        return f"{at.retry} {at.queue_id}"
    return f"{at.queue.retry} {_ONE_MESSAGE}{at.queue.queue_id}%{at.offset}"


def _queues(text: str) -> Iterator[tuple[PoppedQueue, str]]:
    seen: set[PoppedQueue] = set()
    for retry, place, last in _entries(text):
        queue = PoppedQueue(retry, _number(place))
        if queue in seen:
            raise HeaderError(f"pop offsets name queue {queue.queue_id} twice")
        seen.add(queue)
        yield queue, last


def _entries(text: str) -> Iterator[tuple[int, str, str]]:
    if not text:
        return
    if text.count(";") >= MAX_ENTRIES:
        raise HeaderError(f"a pop from more than {MAX_ENTRIES} queues")
    at = 0
    for entry in text.split(";"):
        parts = entry.split(" ")
        if len(parts) != 3 or parts[0] not in _RETRIES:
            raise HeaderError(f"{entry[:40]!r} is no queue and its offsets", at)
        yield _RETRIES[parts[0]], parts[1], parts[2]
        at += len(entry) + 1


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 19:
        raise HeaderError(f"{text[:40]!r} is no number within a pop's offsets")
    return int(text)
