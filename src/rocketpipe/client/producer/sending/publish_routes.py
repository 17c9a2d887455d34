"""What a producer needs of a topic's route to send to it, ready to use.

A line is made of a route when its topic is first sent to, and goes when the session says that the
route is another. The route of a topic that is still to be created is a guess and is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from rocketpipe.auth.credentials import Credentials
from rocketpipe.client.producer.sending.outgoing import Outgoing, plain_header, template
from rocketpipe.client.producer.sending.signing import SendSigner
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.clock import in_time
from rocketpipe.errors import CallTimeout, ConnectionLost, NoRoute, RocketPipeError
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.model.topic import Perm
from rocketpipe.remoting.connection import PeerConnection

MAX_TOPICS: Final = 4096
#: How soon NameServers are asked again of which none answers.
UNANSWERED_MS: Final = 200


class QueueRoute:
    """One queue, and how it is reached."""

    __slots__ = ("address", "header", "peer", "queue", "signed")

    def __init__(
        self, queue: MessageQueue, address: str, header: bytes, *, signed: bool = False
    ) -> None:
        self.queue = queue
        self.address = address
        #: Whether its sends are signed, and so have no template of their own.
        self.signed = signed
        #: The template of its plain messages.
        self.header = plain_header(header, queue.queue_id)
        #: The connection that was used last; it may have ended since.
        self.peer: PeerConnection | None = None


class PublishRoute:
    """A topic's queues that may be written, and how they are reached."""

    __slots__ = ("_headers", "_leaders", "_signers", "_unled", "queues", "route", "topic", "ways")

    def __init__(
        self,
        group: str,
        topic: str,
        route: TopicRoute,
        new_queues: int = NEW_TOPIC_QUEUES,
        credentials: Credentials | None = None,
    ) -> None:
        self.topic = topic
        self.route = route
        self.queues: tuple[MessageQueue, ...] = tuple(route.writable_queues(topic))
        self._leaders = {broker.broker_name: broker.leader for broker in route.brokers}
        self._headers = {
            name: template(group, topic, name, new_queues)
            for name, leader in self._leaders.items()
            if leader
        }
        self._signers = {
            name: SendSigner(credentials, group, topic, name, new_queues)
            for name in self._headers
            if credentials is not None
        }
        #: Those that may be written as soon as their broker has a leader.
        self._unled = [] if route.order_conf else self._without_leader(route)
        #: For each of the queues, in their order; None where its broker has no leader.
        self.ways: tuple[QueueRoute | None, ...] = tuple(map(self._way, self.queues))

    def _way(self, queue: MessageQueue) -> QueueRoute | None:
        address = self._leaders.get(queue.broker_name)
        if not address:
            return None
        header = self._headers[queue.broker_name]
        return QueueRoute(queue, address, header, signed=bool(self._signers))

    def _without_leader(self, route: TopicRoute) -> list[MessageQueue]:
        return [
            MessageQueue(topic=self.topic, broker_name=held.broker_name, queue_id=queue_id)
            for held in route.queues
            if held.perm & Perm.WRITE and not self._leaders.get(held.broker_name)
            for queue_id in range(held.write_queues)
        ]

    def address(self, broker_name: str) -> str | None:
        """Where the broker takes writes, if it does."""
        return self._leaders.get(broker_name)

    def choice(self, is_awaited: Callable[[str], bool]) -> Sequence[MessageQueue]:
        """The queues to pick from by what is in a message: also those about to have a leader.

        Were they left out, messages that belong in one queue would go to another meanwhile.
        """
        awaited = [queue for queue in self._unled if is_awaited(queue.broker_name)]
        return sorted((*self.queues, *awaited)) if awaited else self.queues

    @property
    def awaits_leaders(self) -> bool:
        """Whether there are queues that want nothing but a leader."""
        return bool(self._unled)

    def frame(
        self, out: Outgoing, queue: MessageQueue, opaque: int, *, oneway: bool = False
    ) -> bytes:
        """The bytes that send something to a queue whose broker has an address."""
        header = self._headers[queue.broker_name]
        signer = self._signers.get(queue.broker_name)
        if signer is None:
            return out.frame(header, queue.queue_id, opaque, oneway=oneway)
        return signer.frame(out, header, queue.queue_id, opaque, oneway=oneway)


class PublishRoutes:
    """Lines by topic; of too many, the oldest goes."""

    def __init__(
        self,
        session: Session,
        group: str,
        *,
        new_topic_queues: int = NEW_TOPIC_QUEUES,
        max_topics: int = MAX_TOPICS,
    ) -> None:
        """Take how many queues a topic is to have at each broker that a send creates it at."""
        self._session = session
        self._group = group
        self._new_queues = new_topic_queues
        self._max_topics = max_topics
        self._lines: dict[str, PublishRoute] = {}

    @property
    def topics(self) -> Collection[str]:
        """The topics that were sent to: their routes are to be kept fresh."""
        return self._lines.keys()

    def known(self, topic: str) -> PublishRoute | None:
        """The line of a topic that was sent to before, unless its route changed since."""
        return self._lines.get(topic)

    async def find(self, topic: str) -> PublishRoute:
        """The line of a topic, made of its route or of that of the brokers that would create it.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost: If no NameServer can be reached.
        """
        routes = self._session.routes
        route = await routes.get_for_send(topic, self._new_queues)
        line = self._line(topic, route)
        if not line.queues and not line.awaits_leaders:
            raise NoRoute(
                topic,
                str(self._session.name_servers),
                "none of its queues may be written now: `rocketpipe doctor` says why",
            )
        return line

    async def find_in_time(self, topic: str, timeout_ms: int) -> PublishRoute:
        """The same, asked for again while no NameServer answers: it may be restarted just now.

        Raises:
            NoRoute: If nobody takes messages of this topic.
            ConnectionLost: If no NameServer can be reached; at once, if none ever was.
            CallTimeout: If none answers in time.
        """
        lost: list[RocketPipeError] = []

        def late() -> RocketPipeError:
            asked = str(self._session.name_servers)
            return lost[-1] if lost else CallTimeout(asked, f"the route of {topic!r}", timeout_ms)

        return await in_time(self._session.clock, timeout_ms, self._find_at_last(topic, lost), late)

    async def _find_at_last(self, topic: str, lost: list[RocketPipeError]) -> PublishRoute:
        while True:
            try:
                return await self.find(topic)
            except ConnectionLost as error:
                # Where nobody ever answered, the address may be wrong.
                if not self._session.routes.brokers():
                    raise
                lost[:] = [error]
            await self._session.clock.sleep(UNANSWERED_MS)

    def current(self, topic: str) -> PublishRoute | None:
        """The line of a topic that was sent to before, by its route as it is known now."""
        line, route = self._lines.get(topic), self._session.routes.remembered(topic)
        if line is None or route is None or line.route is route:
            return line
        return self._line(topic, route)

    def _line(self, topic: str, route: TopicRoute) -> PublishRoute:
        line = PublishRoute(self._group, topic, route, self._new_queues, self._session.credentials)
        if self._session.routes.remembered(topic) is route:
            self._lines.pop(topic, None)
            if not line.queues:
                return line  # nobody can be sent to: whoever sends has to look again
            while len(self._lines) >= self._max_topics:
                self.drop(next(iter(self._lines)))
            self._lines[topic] = line
        return line

    def whereabouts(self, broker: str) -> tuple[str, MessageQueue] | None:
        """Where a broker takes requests, and a queue that it holds, if some topic is there."""
        for line in self._lines.values():
            address = line.address(broker)
            for queue in line.queues if address is not None else ():
                if queue.broker_name == broker and address is not None:
                    return address, queue
        return None

    def topics_at(self, address: str) -> list[str]:
        """The topics that were sent to whose queues are written at an address, as is known now."""
        lines = [self.current(topic) for topic in list(self._lines)]
        return [
            line.topic
            for line in lines
            if line is not None
            and any(way is not None and way.address == address for way in line.ways)
        ]

    def drop(self, topic: str) -> None:
        """Make the line anew next time: its route is another, or gone."""
        self._lines.pop(topic, None)
