"""The tables of an Apache master, asked for again and again by a slave of ours.

    21   topics            taken over when their version is another one; of one that was deleted,
                           queues and places go too
    201  groups            taken over when their version is another one
    402  request modes     taken over; masters before 5.0 have none
    43   places of groups  taken over, backwards too, as after a reset; of an older version, which
    45   delay levels      a master has that crashed, only what goes forwards
    28   its log           where it begins: from there on the log is kept here too

Places and levels change many times under one version. Behind a master of ours all of it comes by
the log instead: see ``table_log``.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, NoReturn, TypeAlias

import msgspec

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.clock import Clock
from rocketpipe.errors import RemoteProtocolError, RequestRejected, RocketPipeError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.brokers import (
    GetAllConsumerOffsets,
    GetAllDelayOffsets,
    GetBrokerRuntimeInfo,
)
from rocketpipe.protocol.requests.clients import GetAllRequestModes
from rocketpipe.protocol.requests.groups import GetAllGroupConfig
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.protocol.requests.topics import GetAllTopicConfig
from rocketpipe.remoting.caller import Caller

log = logging.getLogger(__name__)

POLL_EVERY_MS: Final = 3000
ANSWER_WITHIN_MS: Final = 10_000
#: A table that changes under whoever asks for its pages is begun again so often, until next time.
_TRIES: Final = 5
_SEPARATOR: Final = "@"
_LOG_BEGIN: Final = "commitLogMinOffset"
_LOG_END: Final = "commitLogMaxOffset"
#: Said of the log of a master that has no file yet.
_NO_LOG: Final = "-1"

#: The version of a table, how many entries of it have come, and how many it has if that is told.
_Page: TypeAlias = tuple[DataVersion, int, int | None]


class TablePoll:
    """Keeps tables as a master has them. One for each master's term."""

    def __init__(
        self,
        tables: Tables,
        caller: Caller,
        clock: Clock,
        *,
        cut: Callable[[str, LogOffset], None],
        keep_from: Callable[[LogOffset], None],
    ) -> None:
        """``cut`` is told of a deleted topic, and of where the master's log ended by then.

        ``keep_from`` is told where the master's log begins.
        """
        self._tables = tables
        self._caller = caller
        self._clock = clock
        self._cut = cut
        self._keep_from = keep_from
        self._versions: dict[str, DataVersion] = {}
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
            ("where its log begins", self._log_begin),
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
        if version is None:
            return
        table = self._tables.topics
        mine = table.all()
        missing = {name for name in mine if name not in topics and not table.is_system(name)}
        deleted: dict[str, int] = {}
        if missing:
            gone = [name for name in missing if await self._is_gone(master, name, mine[name])]
            end = await self._log_offset(master, _LOG_END)
            if (await page(None, None))[0] != version:
                # One of them may be there again, with messages before that end.
                del self._versions["topics"]
                return
            deleted = dict.fromkeys(gone, end)
        table.replicate(topics.values(), missing, deleted, version)
        for name, end in deleted.items():
            self._tables.offsets.forget_topic(name)
            self._cut(name, LogOffset(end))

    async def _is_gone(self, master: str, topic: str, settings: TopicSettings) -> bool:
        """Whether the master has no messages of it either: else only its table was lost."""
        for queue_id in range(max(settings.read_queues, settings.write_queues)):
            asked = GetMaxOffset(topic=topic, queue_id=queue_id)
            try:
                reply = await self._caller.call(master, asked, ANSWER_WITHIN_MS)
            except RequestRejected as refused:
                if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                    raise
                return True
            if reply.offset > 0:
                return False
        return True

    async def _log_begin(self, master: str) -> None:
        self._keep_from(LogOffset(await self._log_offset(master, _LOG_BEGIN)))

    async def _log_offset(self, master: str, name: str) -> int:
        reply = await self._caller.call(master, GetBrokerRuntimeInfo(), ANSWER_WITHIN_MS)
        text = reply.values.table.get(name, "")
        if text == _NO_LOG:
            return 0
        if not (text.isascii() and text.isdigit()):
            raise RemoteProtocolError(f"the master does not say its {name}: {text[:40]!r}")
        return int(text)

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
        older = self._is_older("places", reply.table.version)
        table, theirs = self._tables.offsets, dict[tuple[str, str], Collection[int]]()
        for name, queues in reply.table.offsets.items():
            topic, separator, group = name.partition(_SEPARATOR)
            if not separator:
                continue
            mine = table.places(group, topic)
            theirs[group, topic] = queues
            table.replicate(group, topic, _changes(queues, mine, forwards=older))
        if not older:
            table.keep_only(theirs)
            table.take_version(reply.table.version)

    async def _delays(self, master: str) -> None:
        reply = await self._caller.call(master, GetAllDelayOffsets(), ANSWER_WITHIN_MS)
        version, table = reply.table.version, self._tables.delays
        mine = table.all()
        older = self._is_older("delays", version)
        if changes := _changes(reply.table.offsets, mine, forwards=older):
            table.replicate({**mine, **changes}, table.version if older else version)

    def _is_older(self, name: str, version: DataVersion) -> bool:
        """Whether a version is before the newest that was seen; brokers before 5.0 have none."""
        seen = self._versions.setdefault(name, version)
        if _order(version) < _order(seen):
            return True
        self._versions[name] = version
        return False

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


def _changes(
    theirs: Mapping[int, int], mine: Mapping[int, int], *, forwards: bool
) -> dict[int, int]:
    """What is otherwise at the master, or only what is further there."""
    return {
        number: offset
        for number, offset in theirs.items()
        if number >= 0 <= offset != mine.get(number)
        and (not forwards or offset > mine.get(number, -1))
    }


def _order(version: DataVersion) -> tuple[int, int, int]:
    return version.state_version, version.counter, version.timestamp
