"""From what a consumer subscribed to, to a choice over stored messages.

The choice comes in two halves. ``matches`` is asked about the tag hash in a queue's entry, before
the record is read; ``accepts`` about a record's properties, and only of SQL92 expressions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from rocketpipe.broker.delivery.sieve import Sieve
from rocketpipe.errors import FilterError
from rocketpipe.filter.sql_eval import CompiledFilter, compile_sql
from rocketpipe.filter.tags import ALL, TagFilter, parse_tags
from rocketpipe.model import properties
from rocketpipe.model.subscription import SQL92, TAG, Subscription
from rocketpipe.store.queues.entries import TagCodes
from rocketpipe.store.queues.reader import everything

#: Of all expressions kept together. One may have as many as 65,536.
MAX_KEPT_CHARS: Final = 4 << 20
#: An expression that costs more, by the count of ``filter.sql_parser``, is not asked in passing.
CHEAP_COST: Final = 64


class Expression:
    """An expression over properties, to be asked about a record's, and paid for.

    Whoever can wait asks its ``sieve`` for a turn before. Expressions of one text are one object.
    """

    __slots__ = ("_accepts", "_cost", "sieve")

    def __init__(self, accepts: Callable[[bytes], bool], cost: int, sieve: Sieve) -> None:
        """``accepts`` is asked about encoded properties; ``cost`` is counted as of SQL92."""
        self._accepts = accepts
        self._cost = cost
        self.sieve = sieve

    @classmethod
    def of_sql(cls, compiled: CompiledFilter, sieve: Sieve) -> Expression:
        """Return the expression that a consumer subscribed with."""
        return cls(lambda raw: compiled.matches(properties.decode_bytes(raw)), compiled.cost, sieve)

    def __call__(self, raw: bytes) -> bool:
        """Whether a message with these properties, as its record has them, is wanted."""
        sieve = self.sieve
        began_s = sieve.timer()
        accepted = self._accepts(raw)
        sieve.spend(sieve.timer() - began_s)
        return accepted

    @property
    def is_cheap(self) -> bool:
        """Whether it may be asked wherever a message arrives, while there is something to spend."""
        return self._cost <= CHEAP_COST


@dataclass(frozen=True, slots=True)
class Choice:
    """Which messages of a queue a consumer gets."""

    matches: Callable[[int], bool]
    #: None where the tag alone decides.
    accepts: Expression | None = None


EVERYTHING: Final = Choice(everything)


class Filters:
    """Compiles expressions, and keeps those that were asked for lately."""

    def __init__(self, *, max_chars: int = MAX_KEPT_CHARS, sieve: Sieve | None = None) -> None:
        self._sieve = sieve or Sieve()
        self._kept: dict[tuple[str, str], Choice] = {}
        self._max_chars = max_chars
        self._chars = 0

    async def turn(self, expression_type: str | None, expression: str | None) -> None:
        """Wait, if `choice` is about to compile this and all expressions have had their time.

        It takes as long as to ask it some dozen times, and whoever can connect can make up others.
        """
        if expression_type == SQL92 and (SQL92, expression) not in self._kept:
            await self._sieve.turn()

    def choice(self, expression_type: str | None, expression: str | None) -> Choice:
        """Compile an expression; without a type it is one of tags, and an empty one means all.

        Raises:
            FilterError: If it does not compile, or there is no such type.
        """
        kind, text = expression_type or TAG, expression or ""
        if kind == TAG and text in ("", ALL):
            return EVERYTHING
        key = (kind, text)
        found = self._kept.pop(key, None)
        if found is None:
            found = self._compile(kind, text)
            self._chars += len(text)
            while self._chars > self._max_chars and self._kept:
                oldest = next(iter(self._kept))
                del self._kept[oldest]
                self._chars -= len(oldest[1])
        # Those asked for lately stand last, and go last.
        self._kept[key] = found
        return found

    def choice_of(self, subscription: Subscription) -> Choice:
        """The choice of a group's subscription, as its members' heartbeats gave it.

        Raises:
            FilterError: If its expression does not compile, or there is no such type.
        """
        if subscription.is_tags and subscription.expression != ALL and subscription.tag_codes:
            # What the group's own client made of its expression counts.
            return Choice(TagCodes(subscription.tag_codes))
        return self.choice(subscription.expression_type, subscription.expression)

    def _compile(self, kind: str, text: str) -> Choice:
        if kind == TAG:
            return _by_tags(parse_tags(text))
        if kind != SQL92:
            raise FilterError(f"expressions are of type {TAG} or {SQL92}, not {kind[:40]!r}", 1)
        if not text:
            raise FilterError(f"an empty expression of type {SQL92}", 1)
        began_s = self._sieve.timer()
        try:
            return Choice(everything, Expression.of_sql(compile_sql(text), self._sieve))
        finally:
            self._sieve.spend(self._sieve.timer() - began_s)


def _by_tags(tags: TagFilter) -> Choice:
    return EVERYTHING if tags.expression == ALL else Choice(TagCodes(tags.codes))
