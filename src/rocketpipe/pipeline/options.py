"""What a reader is told: Spark's text options as one checked value.

    nameServer   where to ask for the topics: host:port, several with ';' between
    subscribe    the topics to read, with ',' between
    groupId      the consumer group in whose name brokers are asked; nothing is committed for it

Spark takes no notice of the letter case of options, so neither does this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from rocketpipe.client.name_servers import NameServers
from rocketpipe.errors import InvalidName, RocketPipeError
from rocketpipe.model.names import check_consumer_group, check_topic

NAME_SERVER: Final = "nameServer"
SUBSCRIBE: Final = "subscribe"
GROUP_ID: Final = "groupId"

DEFAULT_GROUP: Final = "rocketpipe-spark"

_KNOWN: Final = {name.lower(): name for name in (NAME_SERVER, SUBSCRIBE, GROUP_ID)}
# What other connectors, and RocketMQ's own clients, call the same thing.
_CALLED_ELSEWHERE: Final = {
    "namesrvaddr": NAME_SERVER,
    "endpoints": NAME_SERVER,
    "topic": SUBSCRIBE,
    "topics": SUBSCRIBE,
    "path": SUBSCRIBE,  # load("orders") arrives as this
    "group": GROUP_ID,
    "consumergroup": GROUP_ID,
}


class OptionError(RocketPipeError, ValueError):
    """An option that is missing, unknown or wrong; the text names it and the next step."""

    def __init__(self, option: str, reason: str) -> None:
        super().__init__(f"option {option!r} {reason}")
        self.option = option
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Where to read, and what."""

    name_servers: str
    topics: tuple[str, ...]
    group: str

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ReadOptions:
        """Check the options of ``spark.read.format("rocketpipe")``.

        Raises:
            OptionError: If one is missing, unknown or wrong.
        """
        given = {name.lower(): value.strip() for name, value in options.items()}
        for name in sorted(given.keys() - _KNOWN.keys()):
            raise OptionError(name, f"is unknown: {_suggestion(name)}")
        return cls(
            name_servers=_name_servers(_required(given, NAME_SERVER, "127.0.0.1:9876")),
            topics=_topics(_required(given, SUBSCRIBE, "orders")),
            group=_group(given.get(GROUP_ID.lower(), DEFAULT_GROUP)),
        )


def _required(given: Mapping[str, str], name: str, example: str) -> str:
    value = given.get(name.lower())
    if not value:
        raise OptionError(name, f'is missing: add .option("{name}", "{example}")')
    return value


def _name_servers(text: str) -> str:
    try:
        return str(NameServers.parse(text))
    except ValueError as error:
        raise OptionError(
            NAME_SERVER, f'is wrong: {error}; write it like "127.0.0.1:9876"'
        ) from error


def _topics(text: str) -> tuple[str, ...]:
    # Twice the same topic would read its messages twice.
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise OptionError(SUBSCRIBE, "names no topic: give one, or several with ',' between")
    try:
        for topic in topics:
            check_topic(topic)
    except InvalidName as error:
        raise OptionError(SUBSCRIBE, f"is wrong: {error}") from error
    return topics


def _group(name: str) -> str:
    try:
        check_consumer_group(name)
    except InvalidName as error:
        raise OptionError(GROUP_ID, f"is wrong: {error}") from error
    return name


def _suggestion(name: str) -> str:
    nearest = get_close_matches(name, _KNOWN, n=1)
    meant = _CALLED_ELSEWHERE.get(name) or (_KNOWN[nearest[0]] if nearest else None)
    hint = f"did you mean {meant!r}? " if meant else ""
    return f"{hint}There are {', '.join(_KNOWN.values())}"
