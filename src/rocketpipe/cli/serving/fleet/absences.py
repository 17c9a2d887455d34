"""What was made at the other brokers while one was down: it gets that when it is back.

Whoever makes a topic then finds it at the brokers that run, and is told of no other. So what the
others have is looked at when one dies, and again when it serves: topics and groups that all of them
have, and none of them had before, are made there too. What an operator made at one broker alone,
before or in between, is so left alone where there are three. What was deleted meanwhile is not
deleted there: messages are not removed unasked.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rocketpipe.clock import Clock
from rocketpipe.errors import RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import is_dlq_topic, is_retry_topic, is_system_group, is_system_topic
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.groups import (
    GetAllGroupConfig,
    GroupList,
    UpdateAndCreateGroupList,
)
from rocketpipe.protocol.requests.topics import (
    GetAllTopicConfig,
    TopicList,
    UpdateAndCreateTopicList,
)
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

_ANSWER_MS: Final = 5000
_AGAIN_MS: Final = 200


@dataclass(frozen=True, slots=True)
class _Made:
    """The topics and groups of a broker."""

    topics: Mapping[str, TopicSettings]
    groups: Mapping[str, GroupSettings]


class Absences:
    """Watches what is made while brokers are down."""

    def __init__(
        self, caller: Caller, clock: Clock, others: Callable[[str], Collection[str]]
    ) -> None:
        """``others`` gives the addresses of the brokers that serve beside one."""
        self._caller = caller
        self._clock = clock
        self._others = others
        self._looking: dict[str, asyncio.Task[tuple[set[str], set[str]]]] = {}
        self._working: set[asyncio.Task[Any]] = set()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Work inside the block."""
        try:
            yield
        finally:
            for task in self._working:
                task.cancel()
            if self._working:
                await asyncio.wait(self._working)

    def begin(self, name: str) -> None:
        """A broker has died, perhaps again."""
        if name not in self._looking:
            self._looking[name] = self._started(self._names(name))

    def end(self, name: str, address: str) -> None:
        """It serves."""
        looking = self._looking.pop(name, None)
        if looking is None or not looking.done():  # nobody was there to make anything
            if looking is not None:
                looking.cancel()
            return
        self._started(self._catch_up(name, address, *looking.result()))

    def _started(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)
        return task

    async def _names(self, name: str) -> tuple[set[str], set[str]]:
        """What the others have, as soon as one of them says so."""
        while not (found := await self._at_others(name)):
            await self._clock.sleep(_AGAIN_MS)
        return (
            {topic for each in found for topic in each.topics},
            {group for each in found for group in each.groups},
        )

    async def _catch_up(
        self, name: str, address: str, topics: Collection[str], groups: Collection[str]
    ) -> None:
        try:
            own, found = await self._at(address), await self._at_others(name)
            if not found:
                return
            new_topics = tuple(
                msgspec.structs.replace(
                    settings,
                    attributes={f"+{key}": text for key, text in settings.attributes.items()},
                )
                for topic, settings in found[0].topics.items()
                if all(topic in each.topics for each in found)
                and not (topic in topics or topic in own.topics or _of_brokers(topic))
            )
            new_groups = tuple(
                settings
                for group, settings in found[0].groups.items()
                if all(group in each.groups for each in found)
                and not (group in groups or group in own.groups or is_system_group(group))
            )
            if new_groups:
                wanted = UpdateAndCreateGroupList(wanted=GroupList(groups=new_groups))
                await self._caller.call(address, wanted, _ANSWER_MS)
            if new_topics:
                made = UpdateAndCreateTopicList(wanted=TopicList(topics=new_topics))
                await self._caller.call(address, made, _ANSWER_MS)
        except RocketPipeError as error:
            log.warning(
                "%s may lack topics that were made while it was down: make them again with "
                "`rocketpipe topic create NAME --if-missing` reason=%s",
                name,
                error,
            )
            return
        if new_topics or new_groups:
            names = [topic.name for topic in new_topics] + [group.name for group in new_groups]
            log.warning("%s has what was made while it was down: %s", name, ", ".join(names))

    async def _at_others(self, name: str) -> list[_Made]:
        found = []
        for address in self._others(name):
            try:
                found.append(await self._at(address))
            except RocketPipeError:
                continue  # it is down as well
        return found

    async def _at(self, address: str) -> _Made:
        topics = await self._caller.call(address, GetAllTopicConfig(), _ANSWER_MS)
        groups = await self._caller.call(address, GetAllGroupConfig(), _ANSWER_MS)
        return _Made(topics.table.topics, groups.table.groups)


def _of_brokers(topic: str) -> bool:
    """Whether brokers make a topic themselves."""
    return is_system_topic(topic) or is_retry_topic(topic) or is_dlq_topic(topic)
