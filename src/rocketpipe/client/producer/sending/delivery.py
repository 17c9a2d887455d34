"""Brings one send to a broker, in as many attempts as it takes and may take."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from rocketpipe.client.producer.result import Sent, Stored, read_sent, read_stored, stored_of
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.publish_routes import PublishRoute, PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.session import Session
from rocketpipe.clock import in_time
from rocketpipe.errors import (
    CallTimeout,
    ConnectionLost,
    NoRoute,
    RequestRejected,
    RocketPipeError,
)
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.command import Command
from rocketpipe.remoting.connection import PeerConnection

_SENDING: Final = "SendMessage"

#: So long at most a new attempt waits for a newer route than the one that failed.
ROUTE_PATIENCE_MS: Final = 500


class PendingAnswer(msgspec.Struct, frozen=True):
    """A send that waits for its answer."""

    answer: asyncio.Future[Sent | Command]
    peer: PeerConnection
    opaque: int
    queue: MessageQueue
    began_ms: int


class FirstAttempt(NamedTuple):
    """How a first attempt ended that left something to be done."""

    queue: MessageQueue
    began_ms: int
    told: Sent | Command | RocketPipeError

    def stored(self) -> Stored:
        """What the broker said of it.

        Raises:
            RocketPipeError: If it did not store the message, or nothing was heard of it.
        """
        told = self.told
        if isinstance(told, RocketPipeError):
            raise told
        return (
            stored_of(told, self.queue) if isinstance(told, Sent) else read_stored(told, self.queue)
        )


class Delivery:
    """Sends to the brokers of a session, and remembers how that went."""

    def __init__(
        self, session: Session, lines: PublishRoutes, choice: QueueChoice, in_flight: InFlight
    ) -> None:
        self._session = session
        self._caller = session.caller
        self._clock = session.clock
        self._lines = lines
        self._choice = choice
        self.in_flight = in_flight

    async def line(self, topic: str, timeout_ms: int) -> PublishRoute:
        """How a topic is reached; asked for if it is not known.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost: If no NameServer can be reached.
            CallTimeout: If none answers in time.
        """
        line = self._lines.known(topic)
        if line is not None:
            return line
        asked = str(self._session.name_servers)
        late = partial(CallTimeout, asked, f"the route of {topic!r}", timeout_ms)
        return await in_time(self._clock, timeout_ms, self._lines.find(topic), late)

    def choose(
        self, line: PublishRoute, pick: Pick | None = None, failed_last: str | None = None
    ) -> MessageQueue:
        """The queue that its sender picks, or else the one whose turn it is.

        ``failed_last`` is the broker of the attempt before, which is not the next one to try.
        """
        if pick is not None:
            return pick(line.queues)
        return self._choice.choose(line.topic, line.queues, failed_last)

    def choose_of(self, line: PublishRoute, broker: str) -> MessageQueue:
        """The queue of one broker whose turn it is."""
        queues = [queue for queue in line.queues if queue.broker_name == broker]
        return self._choice.choose(line.topic, queues)

    def begin(self, out: Outgoing, time_ms: int) -> PendingAnswer | None:
        """Send it at once, if there is nothing to wait for; None if there is.

        Whoever gets what was asked waits for its answer, and then says that it is ``over``.
        """
        topic = out.topic
        line = self._lines.known(topic)
        if line is None or self._choice.faults is not None:
            return None
        ways = line.ways
        way = ways[self._choice.turn(topic) % len(ways)]
        if way is None:
            return None
        peer = way.peer
        if peer is None or not peer.is_open:
            peer = way.peer = self._caller.connected(way.address)
        else:
            self._caller.check_process()
        if peer is None or peer.is_slow:
            return None
        return self._ask(out, peer, way.header, way.queue, time_ms)

    def over(self, asked: PendingAnswer) -> None:
        """Stop waiting for an answer, whether it came or not."""
        self.in_flight.unwatch(asked.answer)
        asked.peer.forget(asked.opaque)

    async def deliver(
        self,
        out: Outgoing,
        timeout_ms: int,
        retries: Retries,
        pick: Pick | None = None,
        begun: FirstAttempt | None = None,
    ) -> Stored:
        """Send until a broker has stored it; a queue that was picked is the only one tried, once.

        What has ``begun`` already is the first attempt.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            RequestRejected: If a broker refuses the message, and others would too.
            ConnectionLost: If brokers, or every NameServer, are out of reach.
            CallTimeout: If no answer came in time; the message may be stored.
        """
        clock, choice, topic = self._clock, self._choice, out.topic
        began_ms = begun.began_ms if begun is not None else clock.monotonic_ms()
        deadline_ms = began_ms + timeout_ms
        line = self._lines.known(topic) or await self.line(topic, timeout_ms)
        attempt = 0
        in_doubt: Stored | None = None
        failed: list[str] = []
        failed_last: str | None = None
        while True:
            attempt += 1
            tried_ms = clock.monotonic_ms() if attempt > 1 else began_ms
            time_ms = retries.time_for(attempt, deadline_ms - tried_ms)
            queue = self.choose(line, pick, failed_last) if begun is None else begun.queue
            try:
                if begun is None:
                    stored = await self._attempt(out, line, queue, time_ms)
                else:
                    first, begun = begun, None
                    stored = first.stored()
            except RocketPipeError as error:
                now_ms = clock.monotonic_ms()
                # As 5.x has it: one that answers, and refuses, is what counts as unreachable.
                choice.note(
                    queue.broker_name,
                    now_ms - tried_ms,
                    failed=True,
                    reachable=not isinstance(error, RequestRejected),
                )
                left_ms = deadline_ms - now_ms
                failed.append(f"attempt {attempt} at {queue.broker_name}: {error}")
                if pick is not None or not retries.after_error(error, attempt, left_ms):
                    if in_doubt is not None:
                        return in_doubt
                    raise _told(error, failed) from error.__cause__
                line = await self._newer(line, left_ms)
            else:
                if choice.faults is not None:
                    choice.note(queue.broker_name, clock.monotonic_ms() - tried_ms)
                if stored.sure or pick is not None:
                    return stored
                left_ms = deadline_ms - clock.monotonic_ms()
                if not retries.after_doubt(attempt, left_ms):
                    return stored
                in_doubt = stored
            failed_last = queue.broker_name

    def address(self, queue: MessageQueue) -> str | None:
        """Where a queue of a topic that was sent to is written, as far as is known."""
        line = self._lines.known(queue.topic)
        return line.address(queue.broker_name) if line is not None else None

    async def post(self, out: Outgoing, timeout_ms: int, pick: Pick | None = None) -> None:
        """Send and forget: when this returns, the message is on its way and no more is known.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost: If the broker, or every NameServer, is out of reach.
            CallTimeout: If that does not show in time.
        """
        line = await self.line(out.topic, timeout_ms)
        queue = self.choose(line, pick)
        peer = await self._peer(line, queue, timeout_ms)
        opaque = peer.next_opaque()
        frame = out.frame(line.header(queue.broker_name), queue.queue_id, opaque, oneway=True)
        peer.ask(opaque, frame, None)

    async def _attempt(
        self, out: Outgoing, line: PublishRoute, queue: MessageQueue, time_ms: int
    ) -> Stored:
        broker_name = queue.broker_name
        address = line.address(broker_name)
        peer = self._caller.connected(address) if address is not None else None
        if peer is None or peer.is_slow:
            began_ms = self._clock.monotonic_ms()
            peer = await self._peer(line, queue, time_ms)
            time_ms = max(0, time_ms - (self._clock.monotonic_ms() - began_ms))
        asked = self._ask(out, peer, line.header(broker_name), queue, time_ms)
        try:
            told = await asked.answer
        finally:
            self.over(asked)
        return stored_of(told, queue) if isinstance(told, Sent) else read_stored(told, queue)

    def _ask(
        self, out: Outgoing, peer: PeerConnection, header: bytes, queue: MessageQueue, time_ms: int
    ) -> PendingAnswer:
        opaque = peer.next_opaque()
        answer: asyncio.Future[Sent | Command] = peer.loop.create_future()
        peer.ask(opaque, out.frame(header, queue.queue_id, opaque), answer, read_sent)
        now_ms = self._clock.monotonic_ms()
        self.in_flight.watch(answer, now_ms + time_ms, CallTimeout, peer.address, _SENDING, time_ms)
        return PendingAnswer(answer, peer, opaque, queue, now_ms)

    async def _peer(self, line: PublishRoute, queue: MessageQueue, time_ms: int) -> PeerConnection:
        """The connection to a queue's broker, made if need be, that takes what is written."""
        address = line.address(queue.broker_name)
        if address is None:
            hint = f"broker {queue.broker_name!r} has no leader now"
            raise NoRoute(line.topic, str(self._session.name_servers), hint)
        peer = self._caller.connected(address)
        if peer is not None and not peer.is_slow:
            return peer
        late = partial(
            ConnectionLost,
            address,
            f"not connected in {time_ms} ms, or connected, but the broker does not read",
        )
        return await in_time(self._clock, time_ms, self._heeding(address), late)

    async def _heeding(self, address: str) -> PeerConnection:
        peer = await self._caller.connect(address)
        await peer.drained()
        return peer

    async def _newer(self, line: PublishRoute, left_ms: int) -> PublishRoute:
        """The line for another attempt: by a newer route, if that comes soon."""
        if not self._lines.is_due(line.topic):
            return self._lines.known(line.topic) or line
        patience_ms = min(left_ms, ROUTE_PATIENCE_MS)
        asked = str(self._session.name_servers)
        late = partial(CallTimeout, asked, "the route", patience_ms)
        try:
            return await in_time(self._clock, patience_ms, self._lines.renew(line.topic), late)
        except RocketPipeError:
            return line


def _told(error: RocketPipeError, failed: Sequence[str]) -> RocketPipeError:
    """The error of the last attempt, with what went before noted on it."""
    if isinstance(error, ConnectionLost):
        # All who waited on a connection were given the same one.
        error = ConnectionLost(error.address, error.reason)
    if len(failed) > 1:
        error.add_note("\n".join(failed))
    return error
