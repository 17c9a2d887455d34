"""Who wants which messages: expressions over tags or properties, and how a group consumes.

The enums are read by name or by ordinal, so their members stand in RocketMQ's order.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from rocketpipe.model.body import Body, Int32, Int64

#: An expression of tags: ``A || B``, or ``*`` for every message.
TAG: Final = "TAG"

#: An expression over a message's properties.
SQL92: Final = "SQL92"

EVERYTHING: Final = "*"


class MessageModel(StrEnum):
    """Whether each member of a group gets every message, or the group shares them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeType(StrEnum):
    """Whether the application asks for messages, is handed them, or pops them."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"
    CONSUME_POP = "CONSUME_POP"


class ConsumeFromWhere(StrEnum):
    """Where a group begins that has no offset yet. Those between first and last are obsolete."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = (
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    )
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class MessageRequestMode(StrEnum):
    """How members of a group fetch: each pulls its own queues, or all pop from shared ones."""

    PULL = "PULL"
    POP = "POP"


class Subscription(Body, frozen=True, kw_only=True):
    """What one group wants of one topic; a greater version replaces a smaller one."""

    topic: str
    expression: str = msgspec.field(name="subString", default=EVERYTHING)
    expression_type: str = TAG
    #: Empty when every message is wanted.
    tags: frozenset[str] = msgspec.field(name="tagsSet", default=frozenset())
    #: Java hashes of ``tags``: what a consume queue holds of a message's tag.
    tag_codes: frozenset[Int32] = msgspec.field(name="codeSet", default=frozenset())
    version: Int64 = msgspec.field(name="subVersion", default=0)
    class_filter_mode: bool = False

    @property
    def is_tags(self) -> bool:
        """Whether the expression is one of tags."""
        return self.expression_type == TAG
