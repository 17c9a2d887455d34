"""Fetches for the consumers of one channel, as many as they may have in hand."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from rocketpipe import RocketPipeError
from rocketpipe.errors import ConnectionLost
from rocketpipe.integrations.held import Held
from rocketpipe.integrations.kombu.envelope import NotKombus, Payload, due_ms, unpacked
from rocketpipe.integrations.kombu.link import POPPED, SOON_MS, Link

log = logging.getLogger(__name__)

#: How long one question waits; who cancels a consumer waits for nobody.
WAIT_MS: Final = 10_000
#: How often topics are looked for while a queue has none.
LOOK_S: Final = 1.0
#: How long brokers may be away before the connection counts as lost.
PATIENCE_S: Final = 10.0
AGAIN_S: Final = 0.5
#: How long further queues are waited for when one has come: a worker has them one by one.
MORE_S: Final = 0.02
#: How long the next question is put off where one follows upon the other, at least and at most: it
#: brings more at a time then, which costs much less.
PAUSE_S: Final = (0.003, 0.012)
#: How many questions may be under way that are not waited for.
MOST_LEFT: Final = 16

#: A queue, the message, and what is held of it.
Fetched = tuple[str, Payload, Held]
Deliver = Callable[[Sequence[Fetched]], None]
Fail = Callable[[BaseException], object]


class Fetching:
    """Asks for the messages of some queues while there is room for them."""

    def __init__(
        self,
        link: Link,
        limit: Callable[[], int],
        room: Callable[[], int],
        deliver: Deliver,
        fail: Fail,
    ) -> None:
        """``limit`` says how many the channel may be given, ``room`` how many more of these."""
        self._link = link
        self._limit = limit
        self._room = room
        self._deliver = deliver
        self._fail = fail
        self._queues: list[str] = []
        self._has_room = asyncio.Event()
        #: For how many there is to be room before it is looked again.
        self._least = 1
        self._pause_s = 0.0
        #: Whether the last question brought as many as it asked for.
        self._is_plenty = False
        #: What the question under way asks for, and whether there is a queue beside.
        self._asked: set[str] = set()
        self._is_more = asyncio.Event()
        #: Questions that were not waited for to the end.
        self._left: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._turn = 0

    # From any thread

    def add(self, queue: str) -> None:
        """Fetch from this queue as well."""
        if queue not in self._queues:
            self._queues = [*self._queues, queue]
        self._link.tell(self._begin, queue)

    def remove(self, queue: str) -> None:
        """Fetch from this queue no longer; what is asked for already is given back."""
        self._queues = [each for each in self._queues if each != queue]

    def look(self) -> None:
        """Look again whether there is room."""
        if not self._has_room.is_set() and self._room() >= self._least:
            self._link.tell(self._has_room.set)

    def stop(self) -> None:
        """Fetch nothing more."""
        self._queues = []
        self._link.tell(self._has_room.set)

    # On the loop

    def _begin(self, queue: str) -> None:
        self._has_room.set()
        if queue not in self._asked:
            self._is_more.set()
        if self._task is None and self._queues:
            self._task = self._link.spawn(self._run())

    async def _run(self) -> None:
        failing_since_s: float | None = None
        while self._queues:
            await self._pause()
            await self._until_room(1)
            if not self._queues:
                break
            try:
                await self._fetch(self._room())
                failing_since_s = None
            except Exception as error:
                now_s = time.monotonic()
                if failing_since_s is None:
                    failing_since_s = now_s
                    log.warning("nothing received: %s", error)
                passes = isinstance(error, RocketPipeError) and (
                    error.retryable or error.stale_route
                )
                if not passes or now_s - failing_since_s > PATIENCE_S:
                    # Whatever it is: Celery connects anew, and says so.
                    lost = ConnectionLost(self._link.name_servers, f"nothing received: {error}")
                    lost.__cause__ = error
                    self._fail(lost)
                    break
                await asyncio.sleep(AGAIN_S)
        self._task = None

    async def _until_room(self, least: int) -> None:
        """Wait until so many more may be had, or no queue is left."""
        self._least = least
        while self._queues and self._room() < least:
            self._has_room.clear()
            if self._room() < least:
                await self._has_room.wait()
        self._has_room.set()

    async def _pause(self) -> None:
        """Wait for a moment after a question that was answered soon."""
        if not self._pause_s:
            return
        if not self._is_plenty:
            await asyncio.sleep(self._pause_s)
            return
        # There are more: as many as are wanted at a time, not each as there is room for it.
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause_s):
                await self._until_room((min(self._limit(), POPPED) + 1) // 2)

    def _pace(self, asked: int, found: int, waited_s: float) -> None:
        """Say how long to pause after a question, by what it brought and how long it took."""
        shortest_s, longest_s = PAUSE_S
        self._is_plenty = found >= asked
        if waited_s > longest_s:
            self._pause_s = 0.0
        elif found > 1:
            self._pause_s = min(max(2 * self._pause_s, shortest_s), longest_s)
        else:
            self._pause_s = shortest_s

    async def _fetch(self, room: int) -> None:
        self._asked = set(self._queues)
        self._is_more.clear()
        by_topic = await self._by_topic()
        if not by_topic:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._is_more.wait()
            return
        asking = self._link.spawn(self._ask(by_topic, min(room, POPPED)))
        if not await self._unless_more(asking):
            # A broker may be about to answer it: what it brings is taken, and the next one asks
            # for the new queue as well.
            self._left.add(asking)
            asking.add_done_callback(self._leave)

    async def _unless_more(self, asking: asyncio.Task[None]) -> bool:
        """Wait for the end of a question, or until there is more to ask for: then it is False."""
        more = asyncio.create_task(self._is_more.wait())
        try:
            await asyncio.wait({asking, more}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                await asyncio.sleep(MORE_S)
                while len(self._left) >= MOST_LEFT and not asking.done():
                    await asyncio.wait({asking, *self._left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            more.cancel()
        if asking.done():
            await asking
        return asking.done()

    def _leave(self, asking: asyncio.Task[None]) -> None:
        self._left.discard(asking)
        if not asking.cancelled() and (error := asking.exception()):
            log.debug("nothing received reason=%s", error)

    async def _ask(self, by_topic: Mapping[str, str], most: int) -> None:
        asked_s = time.monotonic()
        found = await self._link.receive(list(by_topic), most, WAIT_MS)
        self._pace(most, len(found), time.monotonic() - asked_s)
        now: list[Fetched] = []
        later: list[Fetched] = []
        unwanted: list[Held] = []
        room, least_ms = self._room(), time.time() * 1000 + SOON_MS
        for held in found:
            queue = by_topic[held.message.topic]
            if queue not in self._queues or len(now) >= room:  # nobody wants it any more, or now
                unwanted.append(held)
            elif message := self._read(queue, held):
                is_later = (at_ms := due_ms(message)) is not None and at_ms > least_ms
                (later if is_later else now).append((queue, message, held))
        if now:
            self._deliver(now)
        for queue, message, held in later:
            await self._link.send_on(queue, held, message)
        if unwanted:
            await self._link.holding.give_back(unwanted)

    async def _by_topic(self) -> dict[str, str]:
        """Queues by their topics, another queue first each time."""
        queues = self._queues
        self._turn += 1
        turn = self._turn % max(1, len(queues))
        return {
            topic: queue
            for queue in queues[turn:] + queues[:turn]
            for topic in await self._link.topics_of(queue)
        }

    def _read(self, queue: str, held: Held) -> Payload | None:
        """A message as it is given to consumers; None if it is none."""
        try:
            message = unpacked(held.message.body)
        except NotKombus as error:
            # It comes again, and again, until it is among the dead letters.
            log.error("not consumed queue=%s message=%s %s", queue, held.message.message_id, error)
            self._link.holding.let_go(held)
            return None
        message["properties"]["delivery_info"]["redelivered"] = held.message.reconsume_times > 0
        return message
