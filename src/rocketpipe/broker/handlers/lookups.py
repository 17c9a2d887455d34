"""Answers to those who look for messages: by key, or by the place in the log that an id names."""

from __future__ import annotations

from typing import Final

from rocketpipe.broker.intake.intake import unreadable
from rocketpipe.errors import InvalidName, RecordError, RequestRejected, StoreError
from rocketpipe.model.names import check_topic
from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.lookups import (
    QueryMessage,
    QueryMessageReply,
    ViewMessageById,
    ViewMessageReply,
)
from rocketpipe.record.codec import RecordView
from rocketpipe.record.real_topic import real_topic
from rocketpipe.remoting.router import Call, handles
from rocketpipe.store.errors import RecordCorrupt, RecordMissing
from rocketpipe.store.message_store import MessageStore

MAX_FOUND: Final = 64
#: What a unique key is asked for, whatever number comes with the question.
MAX_FOUND_UNIQUE: Final = 32
#: An answer ends with the message that would make it longer, but has one in any case.
MAX_ANSWER_BYTES: Final = 8 << 20


def topic_at(store: MessageStore, offset: int) -> str | None:
    """The topic of the message at a place in the log, as its readers know it; None if none is."""
    try:
        return real_topic(RecordView(store.record_at(LogOffset(offset))))
    except (StoreError, RecordError, ValueError):
        return None


class LookupHandlers:
    """Finds single messages in the store."""

    def __init__(self, store: MessageStore) -> None:
        self._store = store

    @handles(QueryMessage)
    async def query(self, request: QueryMessage, call: Call) -> QueryMessageReply:
        """The newest messages with the key come first; each has it, not merely its hash."""
        try:
            check_topic(request.topic)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        try:
            records = self._find(request)
            newest = RecordView(records[0]) if records else None
        except (StoreError, RecordError) as error:
            raise unreadable(error) from error
        if newest is None:
            raise RequestRejected(
                ResponseCode.QUERY_NOT_FOUND,
                "can not find message, maybe time range not correct",
            )
        return QueryMessageReply(
            # The index has come at least that far.
            index_last_update_timestamp=newest.stored_ms,
            index_last_update_phyoffset=newest.log_offset,
            messages=b"".join(records),
        )

    def _find(self, request: QueryMessage) -> list[bytes]:
        limit = MAX_FOUND_UNIQUE if request.unique_key else min(request.max_num, MAX_FOUND)
        records: list[bytes] = []
        size = 0
        if limit <= 0:
            return records
        for offset in self._store.find_by_key(
            request.topic, request.key, request.begin_timestamp, request.end_timestamp
        ):
            record = self._store.record_at(offset)
            size += len(record)
            if records and size > MAX_ANSWER_BYTES:
                break
            records.append(record)
            if len(records) >= limit:
                break
        return records

    @handles(ViewMessageById)
    async def view(self, request: ViewMessageById, call: Call) -> ViewMessageReply:
        """The one record that begins at the offset; the middle of one is not a message."""
        try:
            return ViewMessageReply(message=self._store.record_at(request.offset))
        except (RecordMissing, RecordCorrupt) as error:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"can not find message by the offset, {request.offset}: {error}",
            ) from error
        except StoreError as error:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, str(error)) from error
