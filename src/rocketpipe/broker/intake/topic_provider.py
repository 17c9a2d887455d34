"""Topics and groups for whoever is about to store a message: found, or made and announced.

A topic that was made is known to the NameServers before this is over, a second at most: a consumer
that starts right after the send looks for its route once, and then again only in 30 seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import InvalidName, RequestRejected, StoreError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.names import check_group
from rocketpipe.model.topic import Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode

READ_WRITE: Final = int(Perm.READ | Perm.WRITE)


class TopicProvider:
    """Gives topics and groups by name; makes them where the settings allow it."""

    def __init__(
        self,
        topics: TopicTable,
        groups: GroupTable,
        registrar: Registrar,
        clock: Clock,
        chance: random.Random,
        kept: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """``kept`` waits until a group is on disk, and raises if it cannot be."""
        self._kept = kept
        self._topics = topics
        self._groups = groups
        self._registrar = registrar
        self._clock = clock
        self._chance = chance
        #: Topics that were made and that the NameServers are being told of.
        self._announcing: dict[str, asyncio.Event] = {}

    def known(self, name: str) -> TopicSettings | None:
        """A topic, if it is there."""
        return self._topics.get(name)

    async def for_send(self, name: str, *, like: str, queues: int) -> TopicSettings:
        """The topic to which something is sent, made after the pattern of ``like`` if need be.

        Raises:
            RequestRejected: There is none, and a send does not make it.
        """

        def make(now_ms: int) -> TopicSettings | None:
            return self._topics.create_for_send(name, like=like, queues=queues, now_ms=now_ms)

        found = await self._found_or_made(name, make)
        if found is None:
            raise RequestRejected(
                ResponseCode.TOPIC_NOT_EXIST,
                f"topic[{name}] not exist, apply first please! A send does not create it here",
            )
        return found

    async def ensured(self, name: str, *, queues: int, settle: bool = True) -> TopicSettings:
        """A topic that the broker itself needs, such as one for retries or dead letters.

        Without ``settle`` a killed broker may forget it: for what its clients ask for again.

        Raises:
            RequestRejected: There is no room for one more.
        """

        def make(now_ms: int) -> TopicSettings:
            return self._topics.ensure(name, queues=queues, perm=READ_WRITE, now_ms=now_ms)

        found = await self._found_or_made(name, make, settle=settle)
        assert found is not None
        return found

    def group(self, name: str) -> GroupSettings:
        """The settings of a consumer group.

        Raises:
            RequestRejected: No group may have this name, or there is none and it is not made here.
        """
        try:
            check_group(name)
        except InvalidName as error:
            raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error
        found = self._groups.ensure(name, self._clock.now_ms())
        if found is None:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"subscription group not exist, {name}"
            )
        return found

    async def kept_group(self, name: str) -> GroupSettings:
        """The settings of a consumer group that a killed broker does not forget.

        Raises:
            RequestRejected: As for `group`, or it cannot be saved now.
        """
        found = self.group(name)
        if self._kept is not None:
            try:
                await self._kept(name)
            except StoreError as error:
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"subscription group {name} cannot be saved, so that nothing is given to it: "
                    f"see to the broker's disk, and ask again: {error}",
                ) from error
        return found

    def any_queue(self, queues: int) -> int:
        """One of so many queues."""
        return self._chance.randrange(max(queues, 1))

    async def _found_or_made(
        self, name: str, make: Callable[[int], TopicSettings | None], *, settle: bool = True
    ) -> TopicSettings | None:
        found = self._topics.get(name)
        if found is not None:
            announcing = self._announcing.get(name)
            if announcing is not None:
                await announcing.wait()
            return found
        made = make(self._clock.now_ms())
        if made is not None:
            told = self._announcing[name] = asyncio.Event()
            try:
                await self._registrar.register(changed=(name,), settle=settle)
            finally:
                # It may have been deleted and made again in the meantime: then another is told of.
                if self._announcing.get(name) is told:
                    del self._announcing[name]
                told.set()
        return made
