"""Requests that find stored messages by key or by place."""

from __future__ import annotations

from dataclasses import dataclass

from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.codes import RequestCode
from rocketpipe.protocol.fields import I32, raw_body, wire
from rocketpipe.protocol.request import Request, request


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessageReply:
    """Messages whose key's hash matches, and how far the index has come."""

    index_last_update_timestamp: int
    index_last_update_phyoffset: LogOffset
    #: Stored records, one after another; a reader compares the key itself.
    messages: bytes = raw_body(default=b"")


@request(RequestCode.QUERY_MESSAGE)
@dataclass(frozen=True, slots=True, kw_only=True)
class QueryMessage(Request[QueryMessageReply]):
    """Find messages of a topic by a key, among those stored within a span of time."""

    topic: str
    key: str
    max_num: I32
    begin_timestamp: int
    end_timestamp: int
    #: Whether the key is a message's unique key.
    unique_key: bool | None = wire("_UNIQUE_KEY_QUERY", default=None)
    broker_name: str | None = wire("bname", default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageReply:
    """The one message, as stored."""

    message: bytes = raw_body()


@request(RequestCode.VIEW_MESSAGE_BY_ID)
@dataclass(frozen=True, slots=True, kw_only=True)
class ViewMessageById(Request[ViewMessageReply]):
    """Read the message at one place of the log."""

    offset: LogOffset
    topic: str | None = None
