"""The tables of an Apache master, asked for again and again by a slave of ours.

    21   topics            taken over when their version is another one
    201  groups            the same
    45   delay levels      the same
    402  request modes     taken over; masters before 5.0 have none
    43   places of groups  forwards only within one master's term: an answer may be older than
                           what is here already; the first answer of a term counts as it is

Behind one of ours the tables come by the log instead: see ``table_log``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn, TypeAlias

import msgspec

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import GetAllConsumerOffsets, GetAllDelayOffsets
from rocketpipe.protocol.requests.clients import GetAllRequestModes
from rocketpipe.protocol.requests.groups import GetAllGroupConfig
from rocketpipe.protocol.requests.topics import GetAllTopicConfig
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

POLL_EVERY_MS: Final = 3000
ANSWER_WITHIN_MS: Final = 10_000
#: A table that changes under whoever asks for its pages is begun again so often, until next time.
_TRIES: Final = 5
_SEPARATOR: Final = "@"

#: The version of a table, how many entries of it have come, and how many it has if that is told.
_Page: TypeAlias = tuple[DataVersion, int, int | None]


class TablePoll:
    """Keeps tables as a master has them. One for each master's term."""

    def __init__(self, tables: Tables, caller: Caller, clock: Clock) -> None:
        self._tables = tables
        self._caller = caller
        self._clock = clock
        self._versions: dict[str, DataVersion] = {}
        self._has_places = False
        #: What was the matter with each table when it was last asked for.
        self._troubles: dict[str, str] = {}

    async def keep_polling(self, master: str) -> NoReturn:
        """Ask the master at this address for all tables every three seconds, until cancelled."""
        while True:
            await self.poll(master)
            await self._clock.sleep(POLL_EVERY_MS)

    async def poll(self, master: str) -> None:
        """Ask for each table once; one that cannot be had is told of, and asked for again later."""
        asked: tuple[tuple[str, Callable[[str], Awaitable[None]]], ...] = (
            ("topics", self._topics),
            ("groups", self._groups),
            ("places of groups", self._places),
            ("delay levels", self._delays),
            ("request modes", self._modes),
        )
        for name, ask in asked:
            try:
                await ask(master)
            except RocketPipeError as error:
                self._tell(master, name, error)
            else:
                self._troubles.pop(name, None)

    def _tell(self, master: str, name: str, error: RocketPipeError) -> None:
        # The same trouble is told of once: it may last for hours.
        kind = type(error).__name__
        if self._troubles.get(name) != kind:
            self._troubles[name] = kind
            unknown = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
            if isinstance(error, RequestRejected) and error.code == unknown:
                log.info("the master does not tell of this table master=%s table=%s", master, name)
            else:
                log.warning(
                    "a table of the master cannot be had, and is asked for again: see to the "
                    "master master=%s table=%s reason=%s",
                    master,
                    name,
                    error,
                )

    async def _topics(self, master: str) -> None:
        topics: dict[str, TopicSettings] = {}

        async def page(first: int | None, before: str | None) -> _Page:
            asked = GetAllTopicConfig(topic_seq=first, data_version=before)
            reply = await self._caller.call(master, asked, ANSWER_WITHIN_MS)
            if first is None:
                topics.clear()
            topics.update(reply.table.topics)
            return reply.table.version, len(topics), reply.total_topic_num

        version = await self._new("topics", page)
        if version is not None:
            table = self._tables.topics
            table.replicate(topics.values(), (), {}, version)
            table.keep_only(topics, table.deletions())

    async def _groups(self, master: str) -> None:
        groups: dict[str, GroupSettings] = {}
        forbidden: dict[str, dict[str, int]] = {}

        async def page(first: int | None, before: str | None) -> _Page:
            asked = GetAllGroupConfig(group_seq=first, data_version=before)
            reply = await self._caller.call(master, asked, ANSWER_WITHIN_MS)
            if first is None:
                groups.clear()
                forbidden.clear()
            groups.update(reply.table.groups)
            forbidden.update(reply.table.forbidden)
            return reply.table.version, len(groups), reply.total_group_num

        version = await self._new("groups", page)
        if version is not None:
            bits = [
                (group, topic, each)
                for group, topics in forbidden.items()
                for topic, each in (("", 0), *topics.items())
            ]
            table = self._tables.groups
            table.replicate(groups.values(), (), bits, version)
            table.keep_only(groups, forbidden)

    async def _new(
        self, name: str, page: Callable[[int | None, str | None], Awaitable[_Page]]
    ) -> DataVersion | None:
        """Ask for all pages of a table; None if it is known already, or changes all the time.

        Masters from 5.3 on may give less than all at once.
        """
        for _ in range(_TRIES):
            version, count, total = await page(None, None)
            if self._versions.get(name) == version:
                return None
            same, before = version, 0
            while same == version and before < count < (total or 0):
                before = count
                same, count, total = await page(count, fastjson.write(version).decode())
            if same == version:
                self._versions[name] = version
                return version
        return None

    async def _places(self, master: str) -> None:
        reply = await self._caller.call(master, GetAllConsumerOffsets(), ANSWER_WITHIN_MS)
        table = self._tables.offsets
        for name, queues in reply.table.offsets.items():
            topic, separator, group = name.partition(_SEPARATOR)
            if not separator:
                continue
            mine = table.places(group, topic) if self._has_places else {}
            ahead = {
                queue_id: offset
                for queue_id, offset in queues.items()
                if queue_id >= 0 and offset >= 0 and offset > mine.get(queue_id, -1)
            }
            if ahead:
                table.replicate(group, topic, ahead)
        table.take_version(reply.table.version)
        self._has_places = True

    async def _delays(self, master: str) -> None:
        reply = await self._caller.call(master, GetAllDelayOffsets(), ANSWER_WITHIN_MS)
        version = reply.table.version
        if self._versions.get("delays") != version:
            self._tables.delays.replicate(reply.table.offsets, version)
            self._versions["delays"] = version

    async def _modes(self, master: str) -> None:
        reply = await self._caller.call(master, GetAllRequestModes(), ANSWER_WITHIN_MS)
        table, theirs = self._tables.modes, {}
        for topic, groups in reply.table.modes.items():
            for group, mode in groups.items():
                theirs[topic, group] = msgspec.structs.replace(
                    mode, topic=topic, consumer_group=group
                )
        new = [mode for key, mode in theirs.items() if table.get(*key) != mode]
        gone = set(table.keys()) - theirs.keys()
        if new or gone:
            table.replicate(new, gone)
