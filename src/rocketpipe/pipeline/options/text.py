"""The text of one option into a value, or an error that names the option and the next step."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final

from rocketpipe.errors import RocketPipeError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

EARLIEST: Final = QueueOffset(-2)
#: What stands for the ends of a queue in a user's JSON, as with Spark's Kafka source.
LATEST: Final = QueueOffset(-1)

MAX_JSON: Final = 16 * 1024 * 1024
MAX_QUEUE_ID: Final = 1 << 31
MAX_OFFSET: Final = (1 << 63) - 1

_BYTES: Final = re.compile(r"(\d{1,18})\s*(|k|m|g|t)(?:i?b)?", re.IGNORECASE)
_SCALE: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class OptionError(RocketPipeError, ValueError):
    """An option that is missing, unknown or wrong; the text names it and the next step."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option!r} {reason}")
        self.option = option
        self.reason = reason

    def __reduce__(self) -> tuple[type[OptionError], tuple[str, str]]:
        return type(self), (self.option, self.reason)


def suggestion(name: str, known: Mapping[str, str], elsewhere: Mapping[str, str]) -> str:
    """What an unknown option may mean, and which there are.

    ``known`` has our names by their lower case, ``elsewhere`` those by what others call them.
    """
    nearest = get_close_matches(name, known, n=1)
    meant = elsewhere.get(name) or (known[nearest[0]] if nearest else None)
    hint = f"did you mean {meant!r}? " if meant else ""
    return f"{hint}There are {', '.join(known.values())}"


def one_of(option: str, text: str, choices: Sequence[str]) -> str:
    """The choice meant, whatever its letter case.

    Raises:
        OptionError: If it is none of them.
    """
    meant = {choice.lower(): choice for choice in choices}.get(text.lower())
    if meant is None:
        raise OptionError(option, f"is {text!r}: choose one of {', '.join(choices)}")
    return meant


def flag(option: str, text: str) -> bool:
    """Raises OptionError for what is neither true nor false."""
    return one_of(option, text, ("true", "false")) == "true"


def count(option: str, text: str) -> int:
    """A whole number of one or more.

    Raises:
        OptionError: If it is anything else.
    """
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text[:20]) <= MAX_OFFSET:
        raise OptionError(option, f"is {text!r}: give a whole number of 1 or more")
    return int(text)


def byte_count(option: str, text: str) -> int:
    """A number of bytes, of one or more: ``1048576``, ``1m`` and ``1MiB`` are the same.

    Raises:
        OptionError: If it is anything else.
    """
    found = _BYTES.fullmatch(text)
    size = int(found[1]) * _SCALE[found[2].lower()] if found else 0
    if not 1 <= size <= MAX_OFFSET:
        raise OptionError(option, f'is {text!r}: give a number of bytes, like "67108864" or "64m"')
    return size


def moment_ms(option: str, text: str) -> int:
    """A moment in milliseconds since 1970: given so, or as ISO 8601; UTC where no zone is named.

    Raises:
        OptionError: If it is neither.
    """
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            option,
            f"is {text!r}: give milliseconds since 1970, or a time like "
            '"2026-05-01T08:00:00+00:00"',
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def json_object(option: str, text: str, example: str) -> Mapping[str, Any]:
    """A JSON object.

    Raises:
        OptionError: If the text is no JSON, or no object.
    """
    if len(text) > MAX_JSON:
        raise OptionError(option, f"has {len(text)} characters: {MAX_JSON} is the most")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(option, f"is no JSON ({error}): write it like {example}") from None
    if not isinstance(value, dict):
        raise OptionError(option, f"is not a JSON object: write it like {example}")
    return value


def queue_of(option: str, topic: str, broker: str, number: object) -> MessageQueue:
    """A queue that an option's JSON names; its number may be text or not.

    Raises:
        OptionError: If the number is none.
    """
    text = str(number)
    known = isinstance(number, str | int) and not isinstance(number, bool)
    if not known or not (text.isascii() and text.isdigit()) or int(text[:12]) >= MAX_QUEUE_ID:
        raise OptionError(option, f"names queue {number!r} of {topic!r}: queues have numbers")
    return MessageQueue(topic=topic, broker_name=broker, queue_id=int(text))
