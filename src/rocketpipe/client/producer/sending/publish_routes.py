"""What a producer needs of a topic's route to send to it, ready to use.

A line is made of a route when its topic is first sent to, and goes when the session says that the
route is another. The route of a topic that is still to be created is a guess and is not kept.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from rocketpipe.client.producer.sending.outgoing import template
from rocketpipe.client.routes import NEW_TOPIC_QUEUES
from rocketpipe.client.session import Session
from rocketpipe.errors import NoRoute
from rocketpipe.model.route import MessageQueue, TopicRoute
from rocketpipe.remoting.connection import PeerConnection

MAX_TOPICS: Final = 4096

#: After failures a topic's route is asked for anew, but not more often than this.
RENEW_EVERY_MS: Final = 1000


class QueueRoute:
    """One queue, and how it is reached."""

    __slots__ = ("address", "header", "peer", "queue")

    def __init__(self, queue: MessageQueue, address: str, header: bytes) -> None:
        self.queue = queue
        self.address = address
        self.header = header
        #: The connection that was used last; it may have ended since.
        self.peer: PeerConnection | None = None


class PublishRoute:
    """A topic's queues that may be written, and how they are reached."""

    __slots__ = ("_headers", "_leaders", "queues", "topic", "ways")

    def __init__(
        self, group: str, topic: str, route: TopicRoute, new_queues: int = NEW_TOPIC_QUEUES
    ) -> None:
        self.topic = topic
        self.queues: tuple[MessageQueue, ...] = tuple(route.writable_queues(topic))
        self._leaders = {broker.broker_name: broker.leader for broker in route.brokers}
        self._headers = {
            name: template(group, topic, name, new_queues)
            for name, leader in self._leaders.items()
            if leader
        }
        #: For each of the queues, in their order; None where its broker has no leader.
        self.ways: tuple[QueueRoute | None, ...] = tuple(map(self._way, self.queues))

    def _way(self, queue: MessageQueue) -> QueueRoute | None:
        address = self._leaders.get(queue.broker_name)
        return QueueRoute(queue, address, self._headers[queue.broker_name]) if address else None

    def address(self, broker_name: str) -> str | None:
        """Where the broker takes writes, if it does."""
        return self._leaders.get(broker_name)

    def header(self, broker_name: str) -> bytes:
        """The template of sends to a broker that has an address."""
        return self._headers[broker_name]


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
        self._renewed_ms: dict[str, int] = {}

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
        line = PublishRoute(self._group, topic, route, self._new_queues)
        if not line.queues:
            raise NoRoute(
                topic,
                str(self._session.name_servers),
                "none of its queues may be written now: look at its permissions and leaders",
            )
        if routes.remembered(topic) is route:
            while len(self._lines) >= self._max_topics:
                self.drop(next(iter(self._lines)))
            self._lines[topic] = line
        return line

    def is_due(self, topic: str) -> bool:
        """Whether a failure is a reason to ask for the route anew; if so, it counts as asked."""
        now_ms = self._session.clock.monotonic_ms()
        asked_ms = self._renewed_ms.get(topic)
        if asked_ms is not None and now_ms - asked_ms < RENEW_EVERY_MS:
            return False
        while len(self._renewed_ms) >= self._max_topics:
            del self._renewed_ms[next(iter(self._renewed_ms))]
        self._renewed_ms[topic] = now_ms
        return True

    async def renew(self, topic: str) -> PublishRoute:
        """Ask for the route anew; gives the line of what is found.

        Raises:
            NoRoute: If nobody takes messages of this topic any more.
            ConnectionLost: If no NameServer can be reached, and the route is not remembered.
        """
        await self._session.routes.refresh(topic)
        return self._lines.get(topic) or await self.find(topic)

    def whereabouts(self, broker: str) -> tuple[str, MessageQueue] | None:
        """Where a broker takes requests, and a queue that it holds, if some topic is there."""
        for line in self._lines.values():
            address = line.address(broker)
            for queue in line.queues if address is not None else ():
                if queue.broker_name == broker and address is not None:
                    return address, queue
        return None

    def drop(self, topic: str) -> None:
        """Make the line anew next time: its route is another, or gone."""
        self._lines.pop(topic, None)
