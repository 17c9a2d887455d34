"""Every error that users may catch.

RocketPipeError
├── ProtocolError                 bytes or events that break RocketMQ's protocol
│   ├── LocalProtocolError        we were asked to send something illegal
│   └── RemoteProtocolError       the peer sent something illegal
│       ├── FrameError            a length or header word that no frame has
│       ├── HeaderError           a header that cannot be read
│       └── BodyError             a body that is not what its request carries
├── RecordError                   bytes that should be a stored message are not one
│   ├── PropertiesError           a property string or value outside the rules
│   ├── BatchError                a batch body that does not add up
│   └── CompressionError          a body that does not inflate, or inflates too far
├── FilterError                   a tag or SQL92 expression that does not compile
├── InvalidName                   a topic, group or namespace outside the rules
├── ConnectionLost                no answer will come: the connection is gone        retryable
├── CallTimeout                   no answer came in time                             retryable
├── NoRoute                       no NameServer knows where the topic lives          stale route
├── RequestRejected               the peer understood and refused; carries its code
└── StoreError                    the store could not do what it was asked
"""

from __future__ import annotations

from typing import ClassVar


class RocketPipeError(Exception):
    """Base of everything this package raises on purpose."""

    #: Whether doing the same again may succeed.
    retryable: ClassVar[bool] = False
    #: Whether the cached route is suspect and should be asked for anew.
    stale_route: ClassVar[bool] = False


class ProtocolError(RocketPipeError):
    """Bytes, or an order of events, that break RocketMQ's protocol."""


class LocalProtocolError(ProtocolError):
    """We were asked to send something that no peer could read."""


class RemoteProtocolError(ProtocolError):
    """The peer sent something illegal; ``at`` is the byte where it shows, when there is one."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason if at is None else f"{reason} (at byte {at})")
        self.reason = reason
        self.at = at


class FrameError(RemoteProtocolError):
    """A frame's length or header word is impossible, or beyond the limit."""


class HeaderError(RemoteProtocolError):
    """A header that cannot be read, or lacks what its request needs."""


class BodyError(RemoteProtocolError):
    """A body that is not what its request carries."""


class RecordError(RocketPipeError):
    """Bytes that should be a stored message are not one; ``at`` counts from the first given."""

    def __init__(self, reason: str, at: int = 0) -> None:
        super().__init__(f"{reason} (at byte {at})")
        self.reason = reason
        self.at = at


class PropertiesError(RecordError):
    """A property string, name or value outside the rules."""


class BatchError(RecordError):
    """A batch body whose entries do not add up."""


class CompressionError(RecordError):
    """A body that does not inflate, or would inflate beyond the limit."""


class FilterError(RocketPipeError):
    """An expression that does not compile; ``column`` counts characters from 1."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(f"{reason} (column {column})")
        self.reason = reason
        self.column = column


class InvalidName(RocketPipeError):
    """A topic, group or namespace whose name is outside the rules."""

    def __init__(self, kind: str, name: str, reason: str) -> None:
        super().__init__(f"{kind} {name!r}: {reason}")
        self.kind = kind
        self.name = name
        self.reason = reason


class ConnectionLost(RocketPipeError):
    """The connection is gone, so no answer will come."""

    retryable = True

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason


class CallTimeout(RocketPipeError):
    """No answer came in time; whether the request was carried out is unknown."""

    retryable = True

    def __init__(self, address: str, what: str, timeout_ms: int) -> None:
        super().__init__(f"{address}: no answer to {what} within {timeout_ms} ms")
        self.address = address
        self.what = what
        self.timeout_ms = timeout_ms


class NoRoute(RocketPipeError):
    """No NameServer knows where a topic lives."""

    stale_route = True

    def __init__(self, topic: str, name_servers: str, hint: str = "") -> None:
        message = f"no route for topic {topic!r}: asked {name_servers}"
        super().__init__(f"{message}; {hint}" if hint else message)
        self.topic = topic


class RequestRejected(RocketPipeError):
    """The peer understood the request and refused it."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{remark} (code {int(code)})")
        self.code = int(code)
        self.remark = remark


class StoreError(RocketPipeError):
    """The store could not do what it was asked."""
