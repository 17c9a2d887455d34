"""Which topics there are, of those that queues have.

NameServers know of topics what brokers have told them since they were started: one that came back
a moment ago lists none, or those of some brokers. So what it does not list need not be gone. A
topic that was seen is there until it is deleted here, or all brokers say that they do not have it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Final

from rocketpipe import Admin, RocketPipeError
from rocketpipe.errors import CallTimeout, ConnectionLost
from rocketpipe.integrations.kombu.names import Names

log = logging.getLogger(__name__)

#: How long what was found out about topics is believed.
TOPICS_S: Final = 10.0


class Topics:
    """The topics of one virtual host, as far as this process has seen them; on the loop."""

    def __init__(self, admin: Admin, names: Names, name_servers: str) -> None:
        self._admin = admin
        self._names = names
        self._name_servers = name_servers
        self._seen: set[str] = set()
        #: Every broker that there ever was: while one is away nobody can say that a topic is gone.
        self._brokers: set[str] = set()
        self._looked_s: float | None = None

    def __contains__(self, topic: str) -> bool:
        return topic in self._seen

    def add(self, topic: str) -> None:
        """Note one that was created."""
        self._seen.add(topic)

    def discard(self, topic: str) -> None:
        """Note that one was deleted."""
        self._seen.discard(topic)

    async def among(self, wanted: Sequence[str]) -> list[str]:
        """Those of some topics that are there, in the same order; the first is there if any is.

        Raises:
            ConnectionLost, CallTimeout: If the first was never seen, and nobody can say whether
                it is there.
        """
        is_seen = wanted[0] in self._seen
        is_old = self._looked_s is None or time.monotonic() - self._looked_s > TOPICS_S
        if is_old or not is_seen:
            try:
                await self._look(wanted, is_old=is_old)
            except (ConnectionLost, CallTimeout) as error:
                if not is_seen:
                    raise
                # Brokers can be asked while no NameServer can.
                log.debug("topics not listed reason=%s", error)
        return [topic for topic in wanted if topic in self._seen]

    async def _look(self, wanted: Sequence[str], *, is_old: bool) -> None:
        listed = await self._listed()
        self._seen.update(topic for topic in listed if topic.startswith(self._names.front))
        if self._names.transient_topic not in listed:
            # Every connection makes this one. So it is the brokers that are not known.
            raise ConnectionLost(
                self._name_servers,
                "no broker has registered yet, so that nobody knows which queues there are: try "
                "again in a moment",
            )
        if is_old:
            self._brokers |= await self._registered()
        self._looked_s = time.monotonic()
        for topic in wanted:
            if topic in self._seen and topic not in listed and await self._is_gone(topic):
                self._seen.discard(topic)

    async def _listed(self) -> set[str]:
        """What the NameServer that answers lists; or all of them, if it knows no broker of ours."""
        listed = set(await self._admin.topics.names(internal=True))
        servers = await self._admin.name_servers.addresses()
        if self._names.transient_topic in listed or len(servers) == 1:
            return listed
        for server in servers:
            try:
                listed.update(await self._admin.name_servers.known_topics(server))
            except (ConnectionLost, CallTimeout) as error:
                log.debug("topics not listed server=%s reason=%s", server, error)
        return listed

    async def _registered(self) -> set[str]:
        clusters = await self._admin.brokers.clusters()
        return {broker for brokers in clusters.values() for broker in brokers}

    async def _is_gone(self, topic: str) -> bool:
        """Whether every broker says that it does not have a topic."""
        try:
            brokers = await self._registered()
            if not brokers or not self._brokers <= brokers:
                return False
            for broker in brokers:
                if topic in await self._admin.brokers.topics(broker):
                    return False
        except RocketPipeError as error:
            log.debug("nobody says that a topic is gone topic=%s reason=%s", topic, error)
            return False
        return True
