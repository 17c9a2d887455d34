"""Tag expressions: which tags of a topic a consumer wants.

    *            all messages; an empty or blank expression means the same
    A || B       messages tagged A or B; blanks around a tag do not belong to it

Where nothing is left between the bars, Java either throws (``||``) or keeps a subscription that
never matches (``|| ||``, or a mere blank). Here a blank means all, and the others are refused.

Brokers choose by the hash of the tag, which stands in every consume queue entry. Two tags may share
a hash, so consumers compare the tags themselves again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import FilterError
from rocketpipe.filter.java_text import trim
from rocketpipe.record.hot import java_hash

ALL: Final = "*"

#: RocketMQ has no limit; a broker keeps an expression for each of its groups, as with SQL92.
MAX_EXPRESSION_CHARS: Final = 65_536
#: A heartbeat lists every tag and every hash once more beside the expression.
MAX_TAGS: Final = 4096


@dataclass(frozen=True, slots=True)
class TagFilter:
    """The tags of one subscription, by name and by hash; both are empty if all are wanted."""

    #: The text as the consumer gave it; ``*`` for all.
    expression: str
    tags: frozenset[str]
    codes: frozenset[int]

    def matches_code(self, tag_code: int | None) -> bool:
        """Whether an entry with this tag hash may be wanted: the broker's choice.

        Entries hold 64 bits, of which the low 32 count. An entry whose hash cannot be had (None) is
        let through.
        """
        if self.expression == ALL or tag_code is None:
            return True
        return ((tag_code + 0x80000000) & 0xFFFFFFFF) - 0x80000000 in self.codes

    def matches_tag(self, tag: str | None) -> bool:
        """Whether a message with this tag, or none, is wanted: the consumer's choice."""
        return not self.tags or tag in self.tags


ALL_TAGS: Final = TagFilter(ALL, frozenset(), frozenset())


def parse_tags(expression: str | None) -> TagFilter:
    """Read a tag expression.

    Raises:
        FilterError: If it names no tag, or is longer or names more tags than a broker keeps.
    """
    if expression is None or expression == ALL or not trim(expression):
        return ALL_TAGS
    if len(expression) > MAX_EXPRESSION_CHARS:
        raise FilterError(
            f"a tag expression of {len(expression)} characters; {MAX_EXPRESSION_CHARS} are allowed",
            MAX_EXPRESSION_CHARS + 1,
        )
    tags = set()
    column = 1
    for piece in expression.split("||"):
        tag = trim(piece)
        if tag:
            tags.add(tag)
        if len(tags) > MAX_TAGS:
            raise FilterError(f"a tag expression of more than {MAX_TAGS} tags", column)
        column += len(piece) + 2
    if not tags:
        raise FilterError("a tag expression without a tag", 1)
    return TagFilter(expression, frozenset(tags), frozenset(map(java_hash, tags)))
