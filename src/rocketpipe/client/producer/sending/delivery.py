"""Brings one send to a broker, in as many attempts as it takes and may take."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from rocketpipe.client.leaders import awaits_leader
from rocketpipe.client.producer.result import Sent, Stored, read_sent, read_stored, stored_of
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.selectors import Pick
from rocketpipe.client.producer.sending.in_flight import InFlight
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.publish_routes import PublishRoute, PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.client.session import Session
from rocketpipe.clock import in_time, within
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

log = logging.getLogger(__name__)

_SENDING: Final = "SendMessage"

#: So long at most a new attempt waits for a newer route than the one that failed.
ROUTE_PATIENCE_MS: Final = 500

#: An error tells of so many attempts at most.
MAX_TOLD: Final = 20


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
        self._now_ms = session.clock.monotonic_ms
        self._lines = lines
        self._choice = choice
        self.in_flight = in_flight
        in_flight.on_slow = self._on_slow
        #: What had been read of slow brokers' connections when they were last looked at.
        self._reads: dict[str, int] = {}

    async def line(self, topic: str, timeout_ms: int) -> PublishRoute:
        """How a topic is reached; asked for if it is not known, and again if nobody answers.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost: If no NameServer can be reached.
            CallTimeout: If none answers in time.
        """
        return self._lines.current(topic) or await self._lines.find_in_time(topic, timeout_ms)

    def choose(
        self, line: PublishRoute, pick: Pick | None = None, failed_last: str | None = None
    ) -> MessageQueue:
        """The queue that its sender picks, or else the one whose turn it is.

        ``failed_last`` is the broker of the attempt before, which is not the next one to try.
        """
        if pick is not None:
            return pick(self.choice(line))
        return self._choice.choose(line.topic, self._led(line), failed_last)

    def choose_of(self, line: PublishRoute, broker: str) -> MessageQueue:
        """The queue of one broker whose turn it is."""
        queues = [queue for queue in self.choice(line) if queue.broker_name == broker]
        return self._choice.choose(line.topic, queues)

    def choice(self, line: PublishRoute) -> Sequence[MessageQueue]:
        """The queues that a sender picks from: also those that wait for their new leader.

        Raises:
            NoRoute: If there are none.
        """
        queues = line.choice(self._session.routes.leaders.is_awaited)
        return queues or self._led(line)

    def _led(self, line: PublishRoute) -> Sequence[MessageQueue]:
        if not line.queues:
            asked = str(self._session.name_servers)
            raise NoRoute(line.topic, asked, "none of its brokers has a leader now")
        return line.queues

    def begin(self, out: Outgoing, time_ms: int) -> PendingAnswer | None:
        """Send a plain message at once, if there is nothing to wait for; None if there is.

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
        if peer is None:
            peer = way.peer = self._caller.connected(way.address)
        if peer is None or peer.is_slow:
            return None
        opaque = peer.next_opaque()
        answer: asyncio.Future[Sent | Command] = peer.loop.create_future()
        try:
            if way.signed:
                frame = line.frame(out, way.queue, opaque)
            else:
                frame = out.plain_frame(way.header, opaque)
            peer.ask(opaque, frame, answer, read_sent)
        except ConnectionLost:
            way.peer = None
            return None
        now_ms = self._now_ms()
        self.in_flight.watch(answer, now_ms + time_ms, CallTimeout, peer.address, _SENDING, time_ms)
        return PendingAnswer(answer, peer, opaque, way.queue, now_ms)

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
        """Send until a broker has stored it; a queue that was picked is the only one tried.

        It is tried once, but for what has to wait for its leader. What has ``begun`` already is the
        first attempt.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            RequestRejected: If a broker refuses the message, and others would too.
            ConnectionLost: If brokers, or every NameServer, are out of reach.
            CallTimeout: If no answer came in time; the message may be stored.
        """
        clock, choice, topic = self._clock, self._choice, out.topic
        began_ms = begun.began_ms if begun is not None else clock.monotonic_ms()
        deadline_ms = began_ms + timeout_ms
        line = self._lines.current(topic) or await self.line(topic, timeout_ms)
        attempt = tries = 0
        in_doubt: Stored | None = None
        failed: list[str] = []
        round_ = _Round(pick)
        while True:
            attempt, tries = attempt + 1, tries + 1
            tried_ms = clock.monotonic_ms() if tries > 1 else began_ms
            time_ms = retries.time_for(attempt, deadline_ms - tried_ms)
            queue: MessageQueue | None = None
            sent = begun is not None
            try:
                if begun is None:
                    queue = round_.queue or self._choose(line, round_)
                    peer, time_ms = await self._ready(line, queue, time_ms)
                    sent = True
                    stored = await self._attempt(out, line, queue, peer, time_ms)
                else:
                    first, begun = begun, None
                    queue = first.queue
                    stored = first.stored()
            except RocketPipeError as error:
                now_ms = clock.monotonic_ms()
                left_ms = deadline_ms - now_ms
                at = queue.broker_name if queue is not None else topic
                _tell(failed, f"attempt {tries} at {at}: {error}")
                if queue is not None:
                    self._note_failure(line, queue, now_ms - tried_ms, error)
                    round_.failed(queue, line.address(queue.broker_name))
                newer: PublishRoute | None = None
                if retries.after_error(error, attempt, left_ms, sent=sent):
                    if awaits_leader(error):
                        attempt -= 1
                        newer = await self._following(line, round_, left_ms)
                    elif pick is None:
                        newer = await self._newer(line, left_ms)
                if newer is None:
                    if in_doubt is not None:
                        return in_doubt
                    raise _told(error, failed) from error.__cause__
                line = newer
            else:
                if choice.faults is not None:
                    choice.note(queue.broker_name, clock.monotonic_ms() - tried_ms)
                if stored.sure or pick is not None:
                    return stored
                left_ms = deadline_ms - clock.monotonic_ms()
                if not retries.after_doubt(attempt, left_ms):
                    return stored
                in_doubt = stored
                round_.failed_last = queue.broker_name

    def address(self, queue: MessageQueue) -> str | None:
        """Where a queue of a topic that was sent to is written, as far as is known."""
        line = self._lines.current(queue.topic)
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
        peer.ask(opaque, line.frame(out, queue, opaque, oneway=True), None)

    def _choose(self, line: PublishRoute, round_: _Round) -> MessageQueue:
        """The queue that was picked, or else one whose broker was not tried in this round."""
        if round_.pick is not None:
            round_.queue = self.choose(line, round_.pick)
            return round_.queue
        queues = [queue for queue in self._led(line) if round_.is_open(line, queue)] or line.queues
        return self._choice.choose(line.topic, queues, round_.failed_last)

    def _note_failure(
        self, line: PublishRoute, queue: MessageQueue, took_ms: int, error: RocketPipeError
    ) -> None:
        name = queue.broker_name
        # As 5.x has it: one that answers, and refuses, is what counts as unreachable.
        refused = isinstance(error, RequestRejected)
        self._choice.note(name, took_ms, failed=True, reachable=not refused)
        self._session.routes.learn(line.topic, name, line.address(name), error)

    async def _following(
        self, line: PublishRoute, round_: _Round, left_ms: int
    ) -> PublishRoute | None:
        """The line for the next attempt: at once where another can be asked, or a newer one.

        None if that does not come in time, or cannot come.
        """
        newer = self._lines.current(line.topic) or line
        if round_.queue is not None and not self._is_to_come(newer, round_.queue):
            return None
        queues = newer.queues if round_.queue is None else (round_.queue,)
        if not any(round_.is_open(newer, queue) for queue in queues):
            if not await within(self._clock, left_ms, self._session.routes.renew(line.topic)):
                return None
            newer = self._lines.current(line.topic) or await self._found(line)
            round_.tried.clear()
        faults = self._choice.faults
        if faults is not None:
            for name in {queue.broker_name for queue in queues}:
                if newer.address(name) != line.address(name):
                    faults.forget(name)  # it is somebody else who has the name now
        return newer

    def _is_to_come(self, line: PublishRoute, queue: MessageQueue) -> bool:
        name = queue.broker_name
        known = line.route.broker(name) is not None
        return known or self._session.routes.leaders.is_awaited(name)

    async def _found(self, line: PublishRoute) -> PublishRoute:
        """The line of a topic that is still to be made, by whoever would make it now."""
        try:
            return await self._lines.find(line.topic)
        except RocketPipeError:
            return line

    async def _ready(
        self, line: PublishRoute, queue: MessageQueue, time_ms: int
    ) -> tuple[PeerConnection, int]:
        """The connection to a queue's leader, and the time that is left then."""
        address = line.address(queue.broker_name)
        peer = self._caller.connected(address) if address is not None else None
        if peer is None or peer.is_slow:
            began_ms = self._clock.monotonic_ms()
            peer = await self._peer(line, queue, time_ms)
            time_ms = max(0, time_ms - (self._clock.monotonic_ms() - began_ms))
        return peer, time_ms

    async def _attempt(
        self,
        out: Outgoing,
        line: PublishRoute,
        queue: MessageQueue,
        peer: PeerConnection,
        time_ms: int,
    ) -> Stored:
        asked = self._ask(out, peer, line, queue, time_ms)
        try:
            told = await asked.answer
        finally:
            self.over(asked)
        return stored_of(told, queue) if isinstance(told, Sent) else read_stored(told, queue)

    def _on_slow(self, address: str) -> None:
        """See whether a broker that says nothing at all leads no more: it may be cut off.

        Who waits for it is told that the connection is lost then, and goes on with the next one.
        """
        peer = self._caller.connected(address)
        before = self._reads.pop(address, None)
        if peer is None:
            return
        self._reads[address] = peer.reads
        if before != peer.reads:
            return  # it answers others
        routes = self._session.routes
        topics = self._lines.topics_at(address)
        if topics:
            routes.suspect(topics[0])
        elif all(broker.leader != address for broker in routes.brokers().values()):
            log.warning("broker says nothing, and leads no more address=%s", address)
            peer.abort()

    def _ask(
        self,
        out: Outgoing,
        peer: PeerConnection,
        line: PublishRoute,
        queue: MessageQueue,
        time_ms: int,
    ) -> PendingAnswer:
        opaque = peer.next_opaque()
        answer: asyncio.Future[Sent | Command] = peer.loop.create_future()
        peer.ask(opaque, line.frame(out, queue, opaque), answer, read_sent)
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
        routes, topic = self._session.routes, line.topic
        if routes.is_calm(topic):
            patience_ms = min(left_ms, ROUTE_PATIENCE_MS)
            await within(self._clock, patience_ms, routes.renew(topic))
        return self._lines.current(topic) or line


class _Round:
    """Whom one send has tried; none of them twice without a pause, unless all were."""

    def __init__(self, pick: Pick | None) -> None:
        self.pick = pick
        #: What was picked: the only one that is tried.
        self.queue: MessageQueue | None = None
        self.failed_last: str | None = None
        self.tried: set[str] = set()

    def failed(self, queue: MessageQueue, address: str | None) -> None:
        """Take note of an attempt that failed."""
        self.failed_last = queue.broker_name
        if address is not None:
            self.tried.add(address)

    def is_open(self, line: PublishRoute, queue: MessageQueue) -> bool:
        """Whether a queue can be tried now."""
        address = line.address(queue.broker_name)
        return address is not None and address not in self.tried


def _tell(failed: list[str], line: str) -> None:
    if len(failed) >= MAX_TOLD:  # the first ones say how it began, the last how it ends
        del failed[MAX_TOLD // 2]
    failed.append(line)


def _told(error: RocketPipeError, failed: Sequence[str]) -> RocketPipeError:
    """The error of the last attempt, with what went before noted on it."""
    if isinstance(error, ConnectionLost):
        # All who waited on a connection were given the same one.
        error = ConnectionLost(error.address, error.reason)
    if len(failed) > 1:
        error.add_note("\n".join(failed))
    return error
