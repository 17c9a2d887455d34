"""What one consumer subscribes to, in which version, and where that is.

A subscription gets a new version whenever this consumer's share of the topic changes, as RocketMQ's
clients do. Pulls name the version that brokers were told last: a newer one would be refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import msgspec

from rocketpipe.client.consumer.handling.handlers import Handlers, subscription_to
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.names import retry_topic
from rocketpipe.model.route import TopicRoute
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.requests.clients import CheckClientConfig, SubscriptionCheck

log = logging.getLogger(__name__)


async def look_up(session: Session, topic: str, *, again: str) -> TopicRoute | None:
    """Where a topic is; of one that is nowhere yet a warning says that it is looked for ``again``.

    Raises:
        ConnectionLost: If no NameServer can be reached.
    """
    route = await session.routes.refresh(topic)
    if route is None:
        hint = await session.directory.hint(topic)
        log.warning("topic not there yet topic=%s next=looked for %s hint=%s", topic, again, hint)
    return route


class Subscriptions:
    """The topics of a consumer's handlers, and with ``retries`` what comes again of them."""

    def __init__(self, session: Session, group: str, handlers: Handlers, *, retries: bool) -> None:
        self._session = session
        self._group = group
        self._handlers = handlers
        self._retries = retry_topic(group) if retries else None
        self._current: dict[str, Subscription] = {}
        self._told: dict[str, Subscription] = {}

    def __iter__(self) -> Iterator[Subscription]:
        """All of them, as brokers are to be told."""
        return iter([self._of(topic) for topic in self.topics])

    @property
    def topics(self) -> list[str]:
        """What is read."""
        named = [each.topic for each in self._handlers]
        return named if self._retries is None else [*named, self._retries]

    def told_of(self, topic: str) -> Subscription:
        """What brokers know of the interest in a topic."""
        return self._told.get(topic) or self._of(topic)

    def renew(self, topic: str) -> None:
        """Have brokers told of a topic anew, as of now."""
        current = self._of(topic)
        version = max(current.version + 1, self._session.clock.now_ms())
        self._told.setdefault(topic, current)
        self._current[topic] = msgspec.structs.replace(current, version=version)

    def told(self, topic: str) -> None:
        """Take note that brokers were told."""
        self._told[topic] = self._of(topic)

    # Where it is

    async def find(self) -> None:
        """Look up where the topics are; one that is nowhere yet is looked for later.

        Raises:
            RequestRejected: If a broker cannot choose messages as a subscription says.
        """
        for each in self._handlers:
            await self._look_up(each.topic)
            if not each.subscription.is_tags:
                await self._check(self._of(each.topic))

    async def find_retries(self) -> None:
        """Look up where messages come again, if they do."""
        if self._retries is not None:
            await self._look_up(self._retries)

    async def _look_up(self, topic: str) -> None:
        try:
            if topic == self._retries:  # which a broker makes when it needs it
                await self._session.routes.refresh(topic)
            else:
                await look_up(self._session, topic, again="every 20 s")
        except RocketPipeError as error:
            log.warning("topic not looked up topic=%s reason=%s", topic, error)

    async def _check(self, subscription: Subscription) -> None:
        """Ask a broker of the topic whether it can choose so, before anybody counts on it."""
        route = self._session.routes.remembered(subscription.topic)
        brokers = [] if route is None else route.brokers
        addresses = [broker.readable for broker in brokers if broker.readable is not None]
        if not addresses:
            return
        check = SubscriptionCheck(
            client_id=self._session.client_id, group=self._group, subscription=subscription
        )
        try:
            await self._session.caller.call(
                self._session.chance.choice(addresses), CheckClientConfig(check=check)
            )
        except RequestRejected:
            raise
        except RocketPipeError as error:
            log.warning("expression not checked topic=%s reason=%s", subscription.topic, error)

    def _of(self, topic: str) -> Subscription:
        current = self._current.get(topic)
        if current is None:
            chosen = self._handlers.of(topic)
            given = subscription_to(topic) if chosen is None else chosen.subscription
            current = msgspec.structs.replace(given, version=self._session.clock.now_ms())
            self._current[topic] = current
        return current
