"""``rocketpipe message tail``: what a topic has, and what comes, in the order of time."""

from __future__ import annotations

import argparse
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Final, Protocol

from rocketpipe.cli.terminal.arguments import Place, Where, count
from rocketpipe.cli.terminal.connecting import name_servers
from rocketpipe.cli.terminal.message_rows import COLUMNS, line, message_row
from rocketpipe.cli.terminal.printing import Printer
from rocketpipe.client.admin.admin import Admin
from rocketpipe.client.admin.offsets import Ends
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.clock import SystemClock
from rocketpipe.errors import ConfigError, FilterError
from rocketpipe.model.names import TOOLS_CONSUMER_GROUP
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue

_POLL_MS: Final = 1000
#: So many messages are kept for one table, unless somebody says how many.
_TAILED: Final = 1000
#: A queue that is so far ahead of the others waits for them.
_AHEAD: Final = 1000


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Teach the parser the flags of this verb."""
    parser.add_argument("topic", help="what to read")
    parser.add_argument(
        "--from",
        dest="start",
        default="latest",
        metavar="PLACE",
        help="earliest, latest (default), now, a time, an offset, or -N: the last N of each queue",
    )
    parser.add_argument(
        "--count",
        type=count,
        metavar="N",
        help=f"end after so many ({_TAILED}; without end when it follows)",
    )
    parser.add_argument(
        "--follow",
        action="store_true",
        help="wait for more until interrupted, a line for each, of JSON or CSV too; the default "
        "when it begins at the latest",
    )
    parser.add_argument("--tags", default="*", metavar="A||B", help="only with one of these tags")
    parser.add_argument("--sql", metavar="EXPRESSION", help="only where SQL92 says so")
    parser.add_argument("--queue", type=int, metavar="N", help="only this queue")
    parser.add_argument("--broker", metavar="NAME", help="only of this broker")


async def tail(admin: Admin, printer: Printer, options: argparse.Namespace) -> int:
    """Print messages in the order of time."""
    place = _place(options.start)
    follow = options.follow or place.where is Where.LATEST
    most = options.count or (None if follow else _TAILED)
    printed = 0
    rows = []
    session = name_servers(options.namesrv)
    async with PullConsumer(session, group=TOOLS_CONSUMER_GROUP, auto_commit=False) as consumer:
        async for message in _messages(admin, consumer, options, place, follow=follow):
            if printed == most:
                if options.count is None:
                    sys.stderr.write(f"the first {most} are shown: --count says how many\n")
                break
            row = message_row(message, printer)
            if follow:
                printer.stream(row, COLUMNS, line(row))
            else:
                rows.append(row)
            printed += 1
            if printed == options.count:
                break
    if not follow:
        printer.rows(rows, COLUMNS, none="no messages")
    return 0


async def _messages(
    admin: Admin,
    consumer: PullConsumer,
    options: argparse.Namespace,
    place: Place,
    *,
    follow: bool,
) -> AsyncIterator[ReceivedMessage]:
    ends = {
        queue: each
        for queue, each in (await admin.offsets.ends(options.topic)).items()
        if options.queue in (None, queue.queue_id) and options.broker in (None, queue.broker_name)
    }
    if not ends:
        raise ConfigError("--queue", f"topic {options.topic!r} has no such queue")
    try:
        await consumer.assign(list(ends), tags=options.tags, sql=options.sql)
    except FilterError as error:
        raise ConfigError("--sql" if options.sql else "--tags", str(error)) from error
    if place.where is Where.TIME:
        await consumer.seek_to_time(place.number, *ends)
    else:
        for queue, each in ends.items():
            await consumer.seek(queue, _start(place, each))
    merged = Merged(consumer, {queue: each.end for queue, each in ends.items()})
    async for message in merged.stored():
        yield message
    while follow:
        for message in await merged.arrived():
            yield message


class Queues(Protocol):
    """What is read from: queues, each in its own order."""

    async def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        """The next messages of some queue."""

    def position(self, queue: MessageQueue) -> QueueOffset:
        """The next one of a queue that ``poll`` will give."""

    def pause(self, *queues: MessageQueue) -> None:
        """Have ``poll`` give none of these."""

    def resume(self, *queues: MessageQueue) -> None:
        """Have it give them again."""


class Merged:
    """The messages of several queues, in the order in which they were stored."""

    def __init__(self, queues: Queues, ends: Mapping[MessageQueue, QueueOffset]) -> None:
        """Take what to read from, and where each queue ends for now."""
        self._queues = queues
        self._ends = ends
        self._held: dict[MessageQueue, deque[ReceivedMessage]] = {each: deque() for each in ends}
        self._later: list[ReceivedMessage] = []

    async def stored(self) -> AsyncIterator[ReceivedMessage]:
        """What is there up to the ends: one is given when it is known that none is before it."""
        while True:
            behind = [
                queue
                for queue, end in self._ends.items()
                if not self._held[queue] and self._queues.position(queue) < end
            ]
            if behind:
                self._queues.resume(*behind)
                self._keep(await self._queues.poll(timeout_ms=_POLL_MS))
                continue
            firsts = [held[0] for held in self._held.values() if held]
            if not firsts:
                self._queues.resume(*self._ends)
                return
            yield self._held[min(firsts, key=_moment).queue].popleft()

    async def arrived(self) -> list[ReceivedMessage]:
        """What came behind the ends since the last time, sorted; nothing if nothing came."""
        found, self._later = self._later, []
        wait_ms = 0 if found else _POLL_MS
        while some := await self._queues.poll(timeout_ms=wait_ms):
            found += some
            wait_ms = 0
        return sorted(found, key=_moment)

    def _keep(self, messages: list[ReceivedMessage]) -> None:
        for message in messages:
            held = self._held[message.queue]
            if message.queue_offset < self._ends[message.queue]:
                held.append(message)
            else:
                self._later.append(message)
            if len(held) >= _AHEAD:
                self._queues.pause(message.queue)


def _moment(message: ReceivedMessage) -> tuple[int, str, int]:
    return message.stored_ms, message.queue.broker_name, message.log_offset


def _start(place: Place, ends: Ends) -> int:
    wanted = {
        Where.EARLIEST: ends.least,
        Where.LATEST: ends.end,
        Where.OFFSET: place.number,
        Where.BY: ends.end + place.number,
    }[place.where]
    return min(max(wanted, ends.least), ends.end)


def _place(text: str) -> Place:
    try:
        return Place.parse(text, SystemClock().now_ms())
    except ValueError as error:
        raise ConfigError("--from", str(error)) from error
