"""What NameServers keep of a broker beside its routes, when it is drained.

ORDER_TOPIC_CONFIG          topics in order name the brokers they are sent to: without it
ROCKETPIPE_STAGE_HOMES      applications that commit through it do so through another
ROCKETPIPE_DRAINED          how far its queues reached: by that a Spark stream whose checkpoint
                            knows the broker tells that it had read everything
"""

from __future__ import annotations

from collections.abc import Mapping

from rocketpipe.client.admin.admin import Admin
from rocketpipe.protocol.requests.kv import DRAINED_NAMESPACE, ORDER_NAMESPACE
from rocketpipe.protocol.requests.staging import HOMES_NAMESPACE


class DrainedTraces:
    """Changes what NameServers keep of one broker."""

    def __init__(self, admin: Admin, broker: str) -> None:
        self._admin = admin
        self._broker = broker

    async def leave_order(self) -> None:
        """Have topics in order sent to the other brokers.

        Raises:
            RocketPipeError: If a NameServer does not answer.
        """
        servers = self._admin.name_servers
        for topic, text in (await servers.values(ORDER_NAMESPACE)).items():
            left = [each for each in text.split(";") if each.partition(":")[0] != self._broker]
            if left and ";".join(left) != text:
                await servers.put(ORDER_NAMESPACE, topic, ";".join(left))

    async def join_order(self) -> None:
        """Have those that it has sent to it again.

        Raises:
            RocketPipeError: If a NameServer, or the broker, does not answer.
        """
        servers = self._admin.name_servers
        topics = await self._admin.brokers.topics(self._broker)
        for topic, text in (await servers.values(ORDER_NAMESPACE)).items():
            named = {each.partition(":")[0] for each in text.split(";")}
            mine = topics.get(topic)
            if mine is not None and mine.ordered and self._broker not in named:
                queues = f"{self._broker}:{mine.write_queues}"
                await servers.put(
                    ORDER_NAMESPACE, topic, ";".join(sorted([*text.split(";"), queues]))
                )

    async def leave(self, ends: Mapping[str, Mapping[int, int]], other: str) -> None:
        """Keep how far its queues reach, and have another decide in its place.

        Raises:
            RocketPipeError: If a NameServer, or one of the two, does not answer.
        """
        servers = self._admin.name_servers
        for topic, queues in ends.items():
            text = ";".join(f"{queue}:{end}" for queue, end in sorted(queues.items()))
            await servers.put(DRAINED_NAMESPACE, f"{self._broker}@{topic}", text)
        await servers.put(DRAINED_NAMESPACE, self._broker, "drained")
        homes = await servers.values(HOMES_NAMESPACE)
        mine = [key for key, home in homes.items() if home == self._broker]
        if mine:
            # Before anybody is sent there: who commits a batch again has to be told so.
            await self._admin.draining.hand_over(self._broker, other)
        for key in mine:
            await servers.put(HOMES_NAMESPACE, key, other)
