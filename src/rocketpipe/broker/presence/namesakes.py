"""Another broker under this one's name and id, as when a settings file was copied.

A NameServer knows one broker for each: the two push each other out of the routes again and again,
and clients find now this one's messages, now the other's. Neither is refused, as the other may be
what is left of a process that has died: but both say so.
"""

from __future__ import annotations

import logging

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import LEADER_ID
from rocketpipe.protocol.requests.membership import GetBrokerMemberGroup
from rocketpipe.remoting.connection import PeerConnection

log = logging.getLogger(__name__)


class Namesakes:
    """Looks for one before this broker takes its place, and tells of each once."""

    def __init__(self, config: BrokerConfig, address: str) -> None:
        self._ask = GetBrokerMemberGroup(cluster_name=config.cluster, broker_name=config.name)
        self._within_ms = config.register_timeout_ms
        self._address = address
        # Whoever is elected does take another's place.
        self._is_asked = config.replication is None or not config.replication.elected
        self._told: str | None = None

    async def look(self, peer: PeerConnection, broker_id: int) -> None:
        """Ask a NameServer who has this id.

        Raises:
            RocketPipeError: It does not answer.
        """
        if not self._is_asked:
            return
        try:
            reply = await peer.call(self._ask, self._within_ms)
        except RequestRejected:
            return  # NameServers before RocketMQ 5 do not know
        other = reply.group.members.addresses.get(broker_id, self._address)
        if other not in (self._address, self._told):
            self._told = other
            instead = "brokerName" if broker_id == LEADER_ID else "brokerId"
            log.error(
                "another broker is registered under this name and id, and takes its place in the "
                "routes: if it runs, stop one of the two, or give one another %s name=%s id=%d "
                "other=%s",
                instead,
                self._ask.broker_name,
                broker_id,
                other,
            )
