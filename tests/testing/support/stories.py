"""Histories that tests make up, event by event, and change."""

from __future__ import annotations

import zlib
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rocketpipe.testing.histories.checker import check
from rocketpipe.testing.histories.history import Event, Phase, What

INVOKE, OK, FAIL, INFO = Phase.INVOKE, Phase.OK, Phase.FAIL, Phase.INFO
QUEUES = tuple(f"t/a/{number}" for number in range(4))


@dataclass
class Story:
    """Events, each a moment after the last."""

    events: list[Event] = field(default_factory=list)
    _sizes: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, who: str, what: What, phase: Phase, **facts: Any) -> None:
        at_ns = 10 * (len(self.events) + 1)
        self.events.append(Event(at_ns=at_ns, who=who, what=what, phase=phase, **facts))

    def send(self, message_id: str, queue: str, **facts: Any) -> tuple[str, int]:
        topic = queue.partition("/")[0]
        facts.setdefault("crc", zlib.crc32(message_id.encode()) & 0xFFFF)
        self.add("p", What.SEND, INVOKE, id=message_id, topic=topic, **facts)
        place = queue, self._sizes[queue]
        self._sizes[queue] += 1
        self.add("p", What.SEND, OK, id=message_id, topic=topic, queue=place[0], offset=place[1])
        return place

    def begin(
        self, who: str, group: str, message_id: str, place: tuple[str, int], **facts: Any
    ) -> None:
        facts.setdefault("crc", zlib.crc32(message_id.encode()) & 0xFFFF)
        facts.setdefault("topic", "t")
        self.add(
            who,
            What.HANDLE,
            INVOKE,
            group=group,
            id=message_id,
            queue=place[0],
            offset=place[1],
            **facts,
        )

    def end(
        self, who: str, group: str, message_id: str, place: tuple[str, int], phase: Phase = OK
    ) -> None:
        self.add(
            who, What.HANDLE, phase, group=group, id=message_id, queue=place[0], offset=place[1]
        )

    def handle(
        self,
        who: str,
        group: str,
        message_id: str,
        place: tuple[str, int],
        phase: Phase = OK,
        **facts: Any,
    ) -> None:
        self.begin(who, group, message_id, place, **facts)
        self.end(who, group, message_id, place, phase)

    def join(self, who: str, group: str, *topics: str, **facts: Any) -> None:
        self.add(who, What.JOIN, OK, group=group, topics=topics or ("t",), **facts)

    def share(self, who: str, group: str, *queues: str) -> None:
        self.add(who, What.SHARE, OK, group=group, topic="t", queues=queues)

    def leave(self, who: str, group: str) -> None:
        self.add(who, What.LEAVE, INVOKE, group=group)
        self.add(who, What.LEAVE, OK, group=group)

    def kinds(self, *, drained: bool = True) -> set[str]:
        return {anomaly.kind for anomaly in check(self.events, drained=drained)}


def find(story: Story, **facts: Any) -> int:
    """Where the first event is that has these facts."""
    for at, event in enumerate(story.events):
        if all(getattr(event, name) == value for name, value in facts.items()):
            return at
    raise AssertionError(f"no event has {facts}")


def change(story: Story, at: int, **facts: Any) -> None:
    story.events[at] = msgspec.structs.replace(story.events[at], **facts)


def drop(story: Story, **facts: Any) -> None:
    story.events = [
        event
        for event in story.events
        if not all(getattr(event, name) == value for name, value in facts.items())
    ]
