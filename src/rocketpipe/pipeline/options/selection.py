"""Which queues a read is about: of topics, of all topics a pattern fits, or named one by one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rocketpipe.errors import InvalidName
from rocketpipe.model.names import check_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.pipeline.options.text import OptionError, json_object, queue_of
from rocketpipe.pipeline.planning.offset_reader import OffsetReader, UnknownTopic

SUBSCRIBE: Final = "subscribe"
SUBSCRIBE_PATTERN: Final = "subscribePattern"
ASSIGN: Final = "assign"
WAYS: Final = (SUBSCRIBE, SUBSCRIBE_PATTERN, ASSIGN)

EXAMPLE: Final = '{"orders": {"broker-a": [0, 1]}}'
MAX_PATTERN: Final = 1000


@dataclass(frozen=True, slots=True)
class Selection:
    """One of the three ways to say what is read."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[MessageQueue, ...] = ()

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Selection:
        """Read the one of the three options that is there.

        Raises:
            OptionError: If none is, or several are, or it is wrong.
        """
        ways = {name: given[name.lower()] for name in WAYS if given.get(name.lower())}
        if not ways:
            raise OptionError(
                SUBSCRIBE,
                f'is missing: add .option("{SUBSCRIBE}", "orders"), or {SUBSCRIBE_PATTERN} or '
                f"{ASSIGN}",
            )
        if len(ways) > 1:
            first, second, *_ = ways
            raise OptionError(second, f"is given beside {first!r}: leave one of them out")
        if SUBSCRIBE in ways:
            return cls(topics=_topics(ways[SUBSCRIBE]))
        if SUBSCRIBE_PATTERN in ways:
            return cls(pattern=_pattern(ways[SUBSCRIBE_PATTERN]))
        return cls(assigned=_assigned(ways[ASSIGN]))

    def queues(self, places: OffsetReader) -> list[MessageQueue]:
        """The queues meant that there are now, in order; a pattern may fit none.

        Raises:
            UnknownTopic: If a topic that was named does not exist.
            OptionError: If a queue that was named does not exist.
        """
        if self.assigned:
            return self._named(places)
        if self.pattern is None:
            return sorted(queue for topic in self.topics for queue in places.queues(topic))
        fits = re.compile(self.pattern)
        found: list[MessageQueue] = []
        for topic in places.topics():
            if fits.fullmatch(topic):
                try:
                    found.extend(places.queues(topic))
                except UnknownTopic:
                    continue  # deleted between the two questions
        return sorted(found)

    def _named(self, places: OffsetReader) -> list[MessageQueue]:
        for topic in sorted({queue.topic for queue in self.assigned}):
            known = set(places.queues(topic))
            for queue in self.assigned:
                if queue.topic == topic and queue not in known:
                    there = ", ".join(
                        f"{each.broker_name}:{each.queue_id}" for each in sorted(known)[:20]
                    )
                    raise OptionError(
                        ASSIGN,
                        f"names queue {queue.queue_id} of {topic!r} on broker "
                        f"{queue.broker_name!r}, which is not there: there are {there or 'none'}",
                    )
        return sorted(self.assigned)


def _topics(text: str) -> tuple[str, ...]:
    # Twice the same topic would read its messages twice.
    topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not topics:
        raise OptionError(SUBSCRIBE, "names no topic: give one, or several with ',' between")
    for topic in topics:
        _check(SUBSCRIBE, topic)
    return topics


def _pattern(text: str) -> str:
    if len(text) > MAX_PATTERN:
        raise OptionError(SUBSCRIBE_PATTERN, f"is longer than {MAX_PATTERN} characters: shorten it")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise OptionError(
            SUBSCRIBE_PATTERN, f'is no regular expression ({error}): write it like "orders-.*"'
        ) from None
    return text


def _assigned(text: str) -> tuple[MessageQueue, ...]:
    queues: list[MessageQueue] = []
    for topic, brokers in json_object(ASSIGN, text, EXAMPLE).items():
        _check(ASSIGN, topic)
        if not isinstance(brokers, dict):
            raise OptionError(ASSIGN, f"has no brokers for {topic!r}: write it like {EXAMPLE}")
        for broker, numbers in brokers.items():
            if not isinstance(numbers, list):
                raise OptionError(ASSIGN, f"has no list for {broker!r}: write it like {EXAMPLE}")
            queues.extend(queue_of(ASSIGN, topic, broker, number) for number in numbers)
    if not queues:
        raise OptionError(ASSIGN, f"names no queue: write it like {EXAMPLE}")
    return tuple(dict.fromkeys(queues))


def _check(option: str, topic: str) -> None:
    try:
        check_topic(topic)
    except InvalidName as error:
        raise OptionError(option, f"is wrong: {error}") from error
