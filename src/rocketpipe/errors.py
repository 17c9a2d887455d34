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
├── ConfigError                   a setting, or a file of settings, that cannot be used
├── PortUnavailable               a server cannot listen where it was told to
├── ConnectionLost                no answer will come: the connection is gone        retryable
├── CallTimeout                   no answer came in time                             retryable
├── NoRoute                       no NameServer knows where the topic lives          stale route
├── RequestRejected               the peer understood and refused; carries its code
│   └── AccessDenied              it does not know who asks, or these may not do it
├── SessionClosed                 a client was used before, or after, its ``async with``
├── ProcessForked                 a client was opened in one process and used in its child
├── WrongThread                   an asyncio client was used in another thread than its own
├── LoopBlocked                   a blocking client was called from its own loop
├── MessageRefused                a producer does not send this: no broker would take it
├── ProducerFull                  too many sends were under way, for too long           retryable
├── ReceiptExpired                a popped message was held for too long: it comes again
├── GroupTaken                    a session has a consumer of this group already
├── OffsetsTaken                  another broadcast consumer keeps its place in this file
├── WrongWayToRead                a consumer that subscribes is assigned queues, or vice versa
├── QueueNotOurs                  a queue that this consumer does not read, or reads no more
├── OffsetOutOfRange              a place that a queue does not have
└── StoreError                    the store could not do what it was asked
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Final


class RocketPipeError(Exception):
    """Base of everything this package raises on purpose."""

    #: Whether doing the same again may succeed.
    retryable: bool = False
    #: Whether the cached route is suspect and should be asked for anew.
    stale_route: ClassVar[bool] = False
    #: What to do next, where that is known.
    hint: str = ""


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
    """A property string, name or value outside the rules; ``at`` is 0 where no byte is to blame."""

    def __init__(self, reason: str, at: int | None = None) -> None:
        super().__init__(reason, at or 0)
        if at is None:
            self.args = (reason,)


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


class ConfigError(RocketPipeError):
    """A setting, or a file of settings, that cannot be used; ``where`` says where it stands."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where = where
        self.reason = reason


class PortUnavailable(RocketPipeError, OSError):
    """A server cannot listen where it was told to; ``hint`` says what may be done."""

    def __init__(self, error: OSError, address: str, what: str = "") -> None:
        taken = error.errno == errno.EADDRINUSE
        reason = "the port is taken" if taken else os.strerror(error.errno or 0)
        OSError.__init__(self, error.errno, f"cannot listen {what}on {address}: {reason}")
        if taken:
            self.hint = (
                "another server runs there, perhaps yours: `rocketpipe doctor` asks a NameServer; "
                "else take another port, or 0 for a free one: `serve` has --namesrv and --broker "
                "for it, other commands --port"
            )

    def __str__(self) -> str:
        return str(self.strerror)


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
        self.name_servers = name_servers
        self.hint = hint


class BatchMismatch(RocketPipeError, ValueError):
    """A staged batch's name came again, with other messages than were committed under it."""

    def __init__(self, application: str, batch: int, before: str, now: str) -> None:
        super().__init__(
            f"batch {batch} of {application!r} was committed before with other messages: {before} "
            f"then, {now} now, of which nothing was written. If they are to be written, give them "
            "a name or number of their own; if they are the same work done again, which comes "
            "out otherwise each time, there is nothing left to do: on_repeat (in Spark: onRepeat) "
            '"skip" passes over it. Brokers remember a name for stagedLedgerTime (30 days, unless '
            "set otherwise) after its last commit"
        )
        self.application = application
        self.batch = batch
        self.before = before
        self.now = now


class LostShare(RocketPipeError):
    """A broker has lost its share of a batch that was decided, and nothing can take its place."""

    def __init__(self, application: str, batch: int, broker: str, lost: str, now: str) -> None:
        super().__init__(
            f"broker {broker!r} has lost its share of batch {batch} of {application!r}, which was "
            f"committed: {lost} were lost, and {now} were staged there now, which are not the "
            "same; the rest of the batch shows. If these are to take their place all the same, "
            'say on_repeat (in Spark: onRepeat) "skip"'
        )
        self.application = application
        self.batch = batch
        self.broker = broker


class RequestRejected(RocketPipeError):
    """The peer understood the request and refused it; ``remark`` is what it said."""

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(f"{remark.strip()} (code {int(code)})")
        self.code = int(code)
        self.remark = remark
        self.retryable = self.code in _PASSING
        self.hint = _NEXT_STEPS.get(self.code, "")


class AccessDenied(RequestRejected):
    """A server does not know who asks, or these may not do what they ask.

    ``user`` is who asked, and ``resource`` what it takes a right to (``Topic:orders``); each is
    empty where the server does not say.
    """

    def __init__(self, code: int, remark: str) -> None:
        super().__init__(code, remark)
        user, resource = _USER.search(remark), _RESOURCE.search(remark)
        self.user = user[1] if user else ""
        self.resource = resource[0] if resource else ""
        if self.resource:
            kind, _, name = self.resource.partition(":")
            self.hint = (
                f"ask who runs the cluster for it: rocketpipe acl grant {self.user} "
                f"--{kind.lower()} {name} --actions …"
            )
        elif self.user:
            self.hint = "is its secret the right one, and is it enabled at this server?"
        else:
            self.hint = (
                "say who asks: access_key= and secret_key_file=, or ROCKETPIPE_ACCESS_KEY and "
                "ROCKETPIPE_SECRET_KEY_FILE"
            )


_USER: Final = re.compile(r"User:([A-Za-z0-9_.@-]+)")
_RESOURCE: Final = re.compile(r"\b(?:Topic|Group|Cluster):[^\s,]+")
_NOBODY: Final = re.compile(r"AccessKey|username cannot be null|check signature", re.IGNORECASE)
_NO_PERMISSION: Final = 16


def rejection(code: int, remark: str) -> RequestRejected:
    """What to raise for a peer's refusal; 16 is said of topics as well."""
    if code == _NO_PERMISSION and (_USER.search(remark) or _NOBODY.search(remark)):
        return AccessDenied(code, remark)
    return RequestRejected(code, remark)


#: By the codes of ``protocol.codes.ResponseCode``.
_NEXT_STEPS: Final[Mapping[int, str]] = {
    2: "the broker is busy: try again after a moment, or send less at once",
    3: "this server does not know the request: is it older, or another kind of server?",
    10: "stored; whether the disk has it is not known",
    11: "stored by the master alone: none of its slaves is in sync",
    12: "stored by the master; its slaves did not say in time that they have it",
    13: "the message is outside the broker's rules: the remark says which one",
    14: "the broker cannot write now: is its disk full, is it stopping, does another lead? "
    "`rocketpipe doctor` looks",
    16: "topic or broker does not allow it: look at their permissions (perm)",
    17: "create the topic first, or let brokers create topics on a send (autoCreateTopicEnable)",
    23: "the expression does not parse: the remark says where",
    24: "the broker does not know this subscription yet: send a heartbeat first",
    25: "the broker has an older subscription: send a heartbeat, then pull again",
    26: "create the group first, or let brokers create groups (autoCreateSubscriptionGroup)",
    206: "no member of the group is connected to this broker",
    215: "the broker limits how fast this is asked: try again after a moment",
}

_PASSING: Final = frozenset({2, 14, 215})


class SessionClosed(RocketPipeError):
    """A client was used before its ``async with``, or after it."""

    def __init__(self, what: str, block: str = "async with") -> None:
        self.hint = f"use it inside its '{block}'"
        super().__init__(f"{what} is not open: {self.hint}")


class ProcessForked(RocketPipeError):
    """A client was opened in one process and is used in a child of it."""

    def __init__(self, opened_in: int, used_in: int) -> None:
        self.hint = "open clients after the fork, in each process its own"
        super().__init__(
            f"opened in process {opened_in}, used in process {used_in}, and connections cannot be "
            f"shared: {self.hint}"
        )
        self.opened_in = opened_in
        self.used_in = used_in


class WrongThread(RocketPipeError):
    """An asyncio client was opened in one thread, on its loop, and used in another."""

    def __init__(self) -> None:
        self.hint = (
            "take a client of rocketpipe.blocking, which threads may share, or one on each loop"
        )
        super().__init__(f"opened on the loop of another thread: {self.hint}")


class LoopBlocked(RocketPipeError):
    """A blocking client was called from the loop that would have to answer it."""

    def __init__(self) -> None:
        self.hint = (
            "call it from a thread: let the handler be a plain function, and let callbacks and "
            "selectors only take note"
        )
        super().__init__(f"a blocking call on the blocking clients' own loop: {self.hint}")


class ReceiptExpired(RocketPipeError):
    """A popped message can be acknowledged, or hidden for longer, no more: it comes again."""

    def __init__(self, handle: str, reason: str) -> None:
        super().__init__(f"receipt {handle!r}: {reason}")
        self.handle = handle
        self.hint = "receive with a longer invisible time, or change it while you work"


class GroupTaken(RocketPipeError):
    """A session has a consumer of this group already; brokers could not tell the two apart."""

    def __init__(self, group: str, client_id: str) -> None:
        self.hint = "give the second consumer a Session of its own, or another group"
        super().__init__(f"client {client_id} has a consumer of group {group!r}: {self.hint}")
        self.group = group


class OffsetsTaken(RocketPipeError):
    """Another broadcast consumer keeps its place in this file; both would lose messages."""

    def __init__(self, path: Path) -> None:
        self.hint = "give this one Session(…, instance=…) with a name of its own, or offsets_root="
        super().__init__(f"{path} is in use by another consumer of the group: {self.hint}")
        self.path = path


class WrongWayToRead(RocketPipeError):
    """A consumer that subscribes to topics was assigned queues, or the other way round."""

    def __init__(self, wanted: str, used: str) -> None:
        self.hint = f"use {used}() only, or another consumer"
        super().__init__(f"{wanted}() after {used}(): {self.hint}")


class QueueNotOurs(RocketPipeError):
    """A queue that this consumer does not read, or reads no more."""

    def __init__(self, topic: str, broker_name: str, queue_id: int) -> None:
        self.hint = "look at the consumer's queues: a rebalance may have taken it away"
        super().__init__(
            f"queue {queue_id} of {topic!r} on {broker_name!r} is not read here: {self.hint}"
        )


class OffsetOutOfRange(RocketPipeError):
    """A place that a queue does not have; ``least`` and ``greatest`` are those it has."""

    def __init__(self, topic: str, queue_id: int, offset: int, least: int, greatest: int) -> None:
        super().__init__(
            f"offset {offset} of queue {queue_id} of {topic!r}: it has {least} to {greatest}"
        )
        self.offset = offset
        self.least = least
        self.greatest = greatest


class MessageRefused(RocketPipeError):
    """A producer was given what no broker takes; nothing was sent."""

    def __init__(self, topic: str, reason: str, hint: str) -> None:
        super().__init__(f"a message to topic {topic!r}: {reason}; {hint}")
        self.topic = topic
        self.reason = reason
        self.hint = hint


class ProducerFull(RocketPipeError):
    """As many sends as a producer may have under way were, for too long; nothing was sent."""

    retryable = True

    def __init__(self, sends: int, held_bytes: int, timeout_ms: int) -> None:
        self.hint = "send less at once, or give the producer more room (max_in_flight)"
        super().__init__(
            f"no room within {timeout_ms} ms: {sends} sends of {held_bytes} bytes are under way; "
            f"{self.hint}"
        )
        self.sends = sends
        self.held_bytes = held_bytes
        self.timeout_ms = timeout_ms


class StoreError(RocketPipeError):
    """The store could not do what it was asked."""
