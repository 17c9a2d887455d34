"""Receipts of messages that are hidden for consumers for as long as they need (``auto_renew``).

    every sweep     what would show within ten seconds is hidden for longer: 1, 3, 5, 10, 30, 60 m
    refused thrice  forgotten: the message is somebody else's by then
    three hours     the message comes again by its group's policy, and the receipt is forgotten
    client is gone  its messages show a second later

A consumer goes on with the handle that it was given; here is the one that is good now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.ids import ReceiptHandle
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.requests.popping import ChangeInvisibleTime
from rocketpipe.proxy.backend import Backend
from rocketpipe.proxy.config import ProxyConfig
from rocketpipe.proxy.sessions import Session
from rocketpipe.proxy.status import Refused
from rocketpipe.proxy.v2 import messaging_pb2 as pb

_MINUTE_MS: Final = 60_000
STEPS_MS: Final = tuple(minutes * _MINUTE_MS for minutes in (1, 3, 5, 10, 30, 60))
AHEAD_MS: Final = 10_000
LONGEST_MS: Final = 180 * _MINUTE_MS
MOST_FAILURES: Final = 3
#: After which messages of a client that is gone show.
GONE_MS: Final = 1000
#: So many renewals are under way at once.
_AT_ONCE: Final = 64


@dataclass(slots=True)
class Held:
    """One message in a consumer's hands."""

    session: Session
    by: Any
    topic: str
    group: str
    handle: ReceiptHandle
    attempts: int
    #: By the monotonic clock here: the broker's wall clock may be any time off.
    since_ms: int
    hidden_until_ms: int
    renewals: int = 0
    failures: int = 0


class Receipts:
    """Keeps messages hidden, and knows by which handle."""

    def __init__(self, backend: Backend, config: ProxyConfig, clock: Clock) -> None:
        self._backend = backend
        self._config = config
        self._clock = clock
        #: By session and group, and then by the handle that the consumer was given.
        self._held: dict[tuple[Session, str], dict[str, Held]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def check_room(self, more: int) -> None:
        """Refuse to renew more than can be held.

        Raises:
            Refused: There is no room.
        """
        if self._count + more > self._config.max_renewed:
            raise Refused(pb.TOO_MANY_REQUESTS, "too many messages are held by consumers: later")

    def hold(self, held: Held, given: str) -> None:
        """Renew this receipt from now on; ``given`` is the handle that its consumer has."""
        self._held.setdefault((held.session, held.group), {})[given] = held
        self._count += 1

    def current(self, session: Session, group: str, given: str) -> ReceiptHandle | None:
        """The handle that is good now for the one that was given, if it is renewed here."""
        held = self._held.get((session, group), {}).get(given)
        return None if held is None else held.handle

    def release(self, session: Session, group: str, given: str) -> None:
        """Renew a receipt no more: its message is done with, or hidden as its consumer wants."""
        of_group = self._held.get((session, group))
        if of_group is not None and of_group.pop(given, None) is not None:
            self._count -= 1
            if not of_group:
                del self._held[session, group]

    async def give_back(self, session: Session) -> None:
        """Have all messages of a client that is gone show again soon."""
        keys = [key for key in self._held if key[0] is session]
        held = [each for key in keys for each in self._held.pop(key).values()]
        self._count -= len(held)
        await self._each([(each, GONE_MS) for each in held])

    async def keep_renewed(self) -> None:
        """Renew, for as long as the port is open."""
        while True:
            await self._clock.sleep(self._config.sweep_ms)
            await self.renew_due()

    async def renew_due(self) -> None:
        """Hide for longer what would show soon."""
        now_ms = self._clock.monotonic_ms()
        due: list[tuple[Held, int]] = []
        for given, held in list(self._walk()):
            if held.hidden_until_ms - now_ms > AHEAD_MS:
                continue
            if now_ms - held.since_ms >= LONGEST_MS:
                group = await self._backend.group(held.group)
                due.append((held, group.retry_policy.delay_ms(held.attempts)))
                self.release(held.session, held.group, given)
            else:
                due.append((held, STEPS_MS[min(held.renewals, len(STEPS_MS) - 1)]))
        await self._each(due)
        for given, held in list(self._walk()):
            if held.failures >= MOST_FAILURES:
                self.release(held.session, held.group, given)

    def _walk(self) -> Iterator[tuple[str, Held]]:
        for of_group in self._held.values():
            yield from of_group.items()

    async def _each(self, due: list[tuple[Held, int]]) -> None:
        for at in range(0, len(due), _AT_ONCE):
            await asyncio.gather(*(self._hide(*each) for each in due[at : at + _AT_ONCE]))

    async def _hide(self, held: Held, invisible_ms: int) -> None:
        asked_ms = self._clock.monotonic_ms()
        try:
            held.handle = await hide(
                self._backend,
                held.session,
                held.by,
                topic=held.topic,
                group=held.group,
                handle=held.handle,
                invisible_ms=invisible_ms,
                timeout_ms=self._config.timeout_ms,
            )
        except (RequestRejected, RocketPipeError):
            held.failures += 1
            return
        held.failures = 0
        held.renewals += 1
        held.hidden_until_ms = asked_ms + invisible_ms


async def hide(
    backend: Backend,
    session: Session,
    by: Any,
    *,
    topic: str,
    group: str,
    handle: ReceiptHandle,
    invisible_ms: int,
    timeout_ms: int,
) -> ReceiptHandle:
    """Have a message come again in so many milliseconds; gives its next handle.

    Raises:
        RequestRejected: The broker knows of no such message, or it was acknowledged.
        CallTimeout, ConnectionLost: The broker does not answer.
    """
    offset = QueueOffset(handle.queue_offset or 0)
    asked = ChangeInvisibleTime(
        consumer_group=group,
        topic=handle.retry.topic(topic, group),
        queue_id=handle.queue_id,
        extra_info=str(handle),
        offset=offset,
        invisible_time=invisible_ms,
        broker_name=handle.broker,
    )
    reply = await backend.ask(handle.broker, asked, session, by, timeout_ms)
    return replace(
        handle,
        start_offset=handle.start_offset if handle.is_ordered else offset,
        pop_ms=reply.pop_time,
        invisible_ms=reply.invisible_time,
        revive_queue_id=reply.revive_qid,
    )
