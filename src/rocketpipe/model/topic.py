"""A topic's settings: how many queues, who may do what, and its attributes.

Attributes are changed by a text: ``+message.type=FIFO,-reserve.time`` sets one and removes another.
A value may have commas in it, as ``+body.schema=city STRING, cents INT`` has: only one that ``+``
or ``-`` follows begins the next change.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntFlag, StrEnum
from typing import Annotated, Final

import msgspec

from rocketpipe.errors import InvalidName
from rocketpipe.model.body import Body, Int32, Int64

#: More queues of one topic on one broker are not believed.
MAX_QUEUES: Final = 1 << 16

QueueCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_QUEUES)]


class Perm(IntFlag):
    """What a topic, or a whole broker, allows."""

    INHERIT = 1
    WRITE = 2
    READ = 4
    PRIORITY = 8


class TopicFilterType(StrEnum):
    """How many tags a message may have; RocketMQ uses one."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class MessageType(StrEnum):
    """What kind of messages a topic is for: the values of its attribute ``message.type``."""

    UNSPECIFIED = "UNSPECIFIED"
    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    MIXED = "MIXED"


MESSAGE_TYPE: Final = "message.type"
CLEANUP_POLICY: Final = "cleanup.policy"
QUEUE_TYPE: Final = "queue.type"
RESERVE_TIME: Final = "reserve.time"
#: Ours: what bodies are, as ``city STRING, cents INT``, for those who read a topic as a table.
BODY_SCHEMA: Final = "body.schema"
#: The longest such text, in characters.
MAX_SCHEMA: Final = 4096

_CHOICES: Final[Mapping[str, frozenset[str]]] = {
    MESSAGE_TYPE: frozenset(MessageType),
    CLEANUP_POLICY: frozenset({"DELETE", "COMPACTION"}),
    QUEUE_TYPE: frozenset({"SimpleCQ", "BatchCQ"}),
}
_KEPT_FROM_CREATION: Final = frozenset({CLEANUP_POLICY, QUEUE_TYPE})


class DataVersion(Body, frozen=True, kw_only=True):
    """Which state of a table this is; two tables with equal versions are the same."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0

    def after_change(self, now_ms: int, state_version: int = 0) -> DataVersion:
        """The version of the table after one more change."""
        return DataVersion(counter=self.counter + 1, state_version=state_version, timestamp=now_ms)


class TopicSettings(Body, frozen=True, kw_only=True):
    """What a broker keeps about one topic."""

    name: str = msgspec.field(name="topicName")
    read_queues: QueueCount = msgspec.field(name="readQueueNums", default=16)
    write_queues: QueueCount = msgspec.field(name="writeQueueNums", default=16)
    perm: Int32 = int(Perm.READ | Perm.WRITE)
    filter_type: TopicFilterType = msgspec.field(
        name="topicFilterType", default=TopicFilterType.SINGLE_TAG
    )
    sys_flag: Int32 = msgspec.field(name="topicSysFlag", default=0)
    ordered: bool = msgspec.field(name="order", default=False)
    attributes: dict[str, str] = msgspec.field(default_factory=dict)

    @property
    def message_type(self) -> MessageType:
        """What the topic is for; a topic that does not say is for normal messages."""
        text = self.attributes.get(MESSAGE_TYPE, MessageType.NORMAL)
        return MessageType(text) if text in _CHOICES[MESSAGE_TYPE] else MessageType.UNSPECIFIED

    def altered(self, change: str) -> dict[str, str]:
        """The attributes after a change such as ``+message.type=FIFO,-reserve.time``.

        Raises:
            InvalidName: If an attribute is unknown, has no such value or may not change any more.
        """
        return _applied(self.attributes, change, new=False)


def attribute_parts(change: str) -> list[str]:
    """The single changes of a text that changes several."""
    return re.split(r",(?=\s*[+-])", change) if change else []


def new_attributes(change: str) -> dict[str, str]:
    """The attributes of a topic that is being created; nothing can be removed from it.

    Raises:
        InvalidName: If an attribute is unknown or has no such value.
    """
    return _applied({}, change, new=True)


def _applied(attributes: Mapping[str, str], change: str, *, new: bool) -> dict[str, str]:
    after = dict(attributes)
    seen: set[str] = set()
    for part in attribute_parts(change):
        sign, (name, equals, value) = part[:1], part[1:].partition("=")
        if name in seen:
            raise InvalidName("attribute", name, "is changed twice")
        seen.add(name)
        if sign == "+" and equals:
            _check(name, value)
            after[name] = value
        elif sign == "-" and not equals and not new:
            if name not in attributes:
                raise InvalidName("attribute", name, "is not there to be removed")
            del after[name]
        else:
            raise InvalidName("attribute", part, "is neither +name=value nor a -name that is set")
        if name in _KEPT_FROM_CREATION and not new:
            raise InvalidName("attribute", name, "cannot change after a topic is created")
    return after


def _check(name: str, value: str) -> None:
    choices = _CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            raise InvalidName("attribute", name, f"is one of {', '.join(sorted(choices))}")
    elif name == RESERVE_TIME:
        digits = value.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and int(value) >= -1):
            raise InvalidName("attribute", name, "is a whole number, -1 or more")
    elif name == BODY_SCHEMA:
        if not (value.strip() and value.isprintable() and len(value) <= MAX_SCHEMA):
            raise InvalidName(
                "attribute", name, f"is columns and their types, {MAX_SCHEMA} characters at most"
            )
    else:
        raise InvalidName("attribute", name, "is not known")
