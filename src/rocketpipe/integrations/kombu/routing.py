"""Whether a routing key fits a binding, as AMQP has it."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import dropwhile


def fits(kind: str, bound: str, routing_key: str) -> bool:
    """Whether a message goes where a queue is bound to an exchange of a kind."""
    match kind:
        case "fanout":
            return True
        case "topic":
            return _pattern(bound).fullmatch(routing_key) is not None
        case _:
            return bound == routing_key


@lru_cache(maxsize=4096)
def _pattern(bound: str) -> re.Pattern[str]:
    """``*`` is one word, ``#`` any number of them, or none; words are parted by dots."""
    words = bound.split(".")
    rest = list(dropwhile(lambda word: word == "#", words))
    if not rest:
        return re.compile(".*", re.DOTALL)
    head = r"(?:[^.]*\.)*" if len(rest) < len(words) else ""
    tail = (r"(?:\.[^.]*)*" if word == "#" else r"\." + _word(word) for word in rest[1:])
    return re.compile(head + _word(rest[0]) + "".join(tail))


def _word(word: str) -> str:
    return "[^.]+" if word == "*" else re.escape(word)
