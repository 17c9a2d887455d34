"""Tells the NameServers that this broker is there, and which topics it has.

    at the start, every 30 s     all topics
    when topics change           those topics, on a connection that has seen all of them
    after a connection was lost  all topics, within a second of the NameServer's return
    when the broker's role does  all of it, under the new id and epoch

A NameServer that cannot be reached keeps nobody waiting for longer than a second, and only once.
Topics are the leader's to tell; a follower says only that it is there, and hears who leads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from rocketpipe.broker.config.config import REGISTER_EVERY_MS, BrokerConfig
from rocketpipe.broker.presence.namesakes import Namesakes
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.clock import Clock
from rocketpipe.errors import RequestRejected, RocketPipeError
from rocketpipe.model.route import LEADER_ID, MessageQueue
from rocketpipe.model.topic import DataVersion, Perm, TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.registration import (
    Registration,
    TopicTableData,
    registration_crc,
    write_registration,
)
from rocketpipe.protocol.requests.routes import (
    GetRouteInfoByTopic,
    RegisterBroker,
    RegisterBrokerReply,
    UnregisterBroker,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import PeerConnection

log = logging.getLogger(__name__)

#: How long a change may keep a client waiting, whatever the NameServers do.
TELL_WITHIN_MS: Final = 1000
WATCH_EVERY_MS: Final = 1000
#: How often a follower that knows no leader asks for one.
SEEK_EVERY_MS: Final = 3000
#: A broker that was not heard of for so long is taken out of the routes.
LIVE_MS: Final = 120_000

_READ_WRITE: Final = int(Perm.READ | Perm.WRITE)


@dataclass(slots=True)
class _NameServer:
    """One of those to be told, and what it was told last."""

    address: str
    #: The connection on which it got all topics; None when it has to get them again.
    told_on: PeerConnection | None = None
    told_ms: int = 0
    #: It did not answer the last time.
    is_away: bool = False
    #: The leader of this broker's name, and where it takes followers, if it said so.
    master: tuple[str, str] | None = None

    @property
    def is_current(self) -> bool:
        return self.told_on is not None and self.told_on.is_open


class Registrar:
    """Registers with every NameServer: on a change, and again and again."""

    def __init__(
        self,
        config: BrokerConfig,
        address: str,
        topics: TopicTable,
        caller: Caller,
        clock: Clock,
        *,
        settled: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Take the address that clients are to find the broker at.

        Nobody is told of a change before it is ``settled``, if that is given and asked for.
        """
        self._config = config
        self._address = address
        self._namesakes = Namesakes(config, address)
        self._topics = topics
        self._caller = caller
        self._clock = clock
        self._settled = settled
        least, most = REGISTER_EVERY_MS
        self._every_ms = min(max(config.register_every_ms, least), most)
        self._servers = [_NameServer(server) for server in config.name_servers]
        self._turn = asyncio.Lock()
        self._changed: set[str] = set()
        self._all_changed = False
        self._to_settle = False
        self._asked = 0
        self._answered = 0
        self._whole: tuple[DataVersion, RegisterBroker] | None = None
        self._id = config.broker_id
        self._ha_address = ""
        self._epoch = 0
        self._stood = 0

    def stand(self, broker_id: int, ha_address: str, epoch: int) -> None:
        """Be another of its name from now on: 0 leads in ``epoch``; the next to be told hear it.

        NameServers refuse a leader of a lower epoch than the one they know. A broker with an id
        below 0 has no place yet, and is not told of.
        """
        self._id, self._ha_address, self._epoch = broker_id, ha_address, epoch
        self._stood += 1
        self._whole = None
        for server in self._servers:
            server.told_on = server.master = None

    @property
    def master(self) -> tuple[str, str] | None:
        """For a follower: the leader's address and where it takes followers, if one is known."""
        return next((each.master for each in self._servers if each.master is not None), None)

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go by other settings; the NameServers hear of them with the next registration."""
        self._config = config

    async def register(self, changed: Iterable[str] = (), *, settle: bool = True) -> None:
        """Tell all NameServers at once of these topics, or of all if none is named.

        What many ask for at the same time is told in one go. One that does not answer within a
        second is told later, by `keep_registered`. Without ``settle`` nobody counts on it that the
        change outlives a kill.
        """
        names = set(changed)
        if self._id < 0 or (names and self._id > 0):
            return
        self._to_settle = self._to_settle or settle
        self._changed |= names
        self._all_changed = self._all_changed or not names
        self._asked += 1
        ticket = self._asked
        async with self._turn:
            if self._answered >= ticket:
                return
            upto, names, whole = self._asked, self._changed, self._all_changed
            settle, self._to_settle = self._to_settle, False
            self._changed, self._all_changed = set(), False
            # Whoever is out of reach is not waited for twice: its own loop finds it again.
            servers = [server for server in self._servers if whole or not server.is_away]
            try:
                if settle and self._settled is not None:
                    await self._settled()
                await self._at_once(
                    servers, lambda server: self._tell(server, () if whole else names)
                )
                self._answered = upto
            except asyncio.CancelledError:
                for server in servers:  # who asked is gone; what changed is to be told all the same
                    server.told_on = None
                raise

    async def readable_queues(self, topic: str) -> list[MessageQueue] | None:
        """Every queue of a topic that may be read, on all brokers; None if it is nowhere.

        Where no NameServer answers, or none is set, this broker's own queues are all there are.
        """
        request = GetRouteInfoByTopic(topic=topic)
        for server in self._servers:
            try:
                reply = await self._caller.call(server.address, request, TELL_WITHIN_MS)
            except RequestRejected as error:
                if error.code == ResponseCode.TOPIC_NOT_EXIST:
                    return None
            except RocketPipeError:
                continue
            else:
                return reply.route.readable_queues(topic)
        found = self._topics.get(topic)
        if found is None:
            return None
        name = self._config.name
        return [
            MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)
            for queue_id in range(found.read_queues)
        ]

    async def unregister(self) -> None:
        """Say goodbye, so that clients stop coming at once."""
        request = UnregisterBroker(
            broker_name=self._config.name,
            broker_addr=self._address,
            cluster_name=self._config.cluster,
            broker_id=self._id,
        )
        if self._id < 0:
            return

        async def leave(server: _NameServer) -> None:
            try:
                await self._caller.call(server.address, request, TELL_WITHIN_MS)
            except RocketPipeError as error:
                self._miss(server, str(error))

        await self._at_once(self._servers, leave)

    async def keep_registered(self) -> None:
        """Register for as long as the broker runs: a NameServer may have lost its memory."""
        async with asyncio.TaskGroup() as tasks:
            for server in self._servers:
                tasks.create_task(self._keep_told(server))

    async def _keep_told(self, server: _NameServer) -> None:
        while True:
            await self._clock.sleep(WATCH_EVERY_MS)
            age_ms = self._clock.monotonic_ms() - server.told_ms
            if self._id >= 0 and (not server.is_current or age_ms >= self._told_every_ms()):
                await self._tell(server)

    def _told_every_ms(self) -> int:
        seeks = self._id > 0 and self.master is None
        return min(self._every_ms, SEEK_EVERY_MS) if seeks else self._every_ms

    async def _at_once(
        self,
        servers: Collection[_NameServer],
        tell: Callable[[_NameServer], Coroutine[Any, Any, None]],
    ) -> None:
        if not servers:
            return
        telling = {asyncio.create_task(tell(server)): server for server in servers}
        timer = asyncio.ensure_future(self._clock.sleep(TELL_WITHIN_MS))
        try:
            waiting = set(telling)
            while waiting and not timer.done():
                done, _ = await asyncio.wait({timer, *waiting}, return_when=asyncio.FIRST_COMPLETED)
                waiting -= done
            for task in waiting:
                self._miss(telling[task], f"no answer within {TELL_WITHIN_MS} ms")
        finally:
            for task in (timer, *telling):
                task.cancel()
            await asyncio.gather(timer, *telling, return_exceptions=True)

    async def _tell(self, server: _NameServer, changed: Collection[str] = ()) -> None:
        """Tell one NameServer of the topics named, or of all; see to it that it knows the rest."""
        try:
            peer = await self._caller.connect(server.address)
            stood = self._stood
            if changed and server.told_on is peer:
                try:
                    await peer.call(self._some_topics(changed), self._config.register_timeout_ms)
                    return
                except RequestRejected:
                    pass  # it has forgotten us, and wants all of it
            server.told_on = None
            await self._namesakes.look(peer, self._id)
            reply = await peer.call(self._all_topics(), self._config.register_timeout_ms)
        except RocketPipeError as error:
            self._miss(server, str(error))
        else:
            if stood != self._stood:
                return  # it was told what is no longer so
            if self._id > 0:
                server.master = _master(reply)
            server.told_on = peer
            server.told_ms = self._clock.monotonic_ms()
            if server.is_away:
                log.info("name server told again address=%s", server.address)
                server.is_away = False

    def _miss(self, server: _NameServer, reason: str) -> None:
        if not server.is_away:
            log.warning("name server not told address=%s reason=%s", server.address, reason)
        server.is_away = True
        server.told_on = None

    def _some_topics(self, names: Collection[str]) -> RegisterBroker:
        topics = {name: found for name in names if (found := self._topics.get(name)) is not None}
        return self._request(topics) if topics else self._all_topics()

    def _all_topics(self) -> RegisterBroker:
        version = self._topics.version
        if self._whole is None or self._whole[0] != version:
            leads = self._id == LEADER_ID
            self._whole = (version, self._request(self._topics.all() if leads else {}))
        return self._whole[1]

    def _request(self, topics: Mapping[str, TopicSettings]) -> RegisterBroker:
        table = TopicTableData(
            topics={name: self._permitted(topic) for name, topic in topics.items()},
            # A table's own version begins again at 0 with each change.
            version=msgspec.structs.replace(self._topics.version, state_version=self._epoch),
            mappings={},
        )
        body = write_registration(Registration(topic_table=table))
        return RegisterBroker(
            broker_name=self._config.name,
            broker_addr=self._address,
            cluster_name=self._config.cluster,
            ha_server_addr=self._ha_address,
            broker_id=self._id,
            heartbeat_timeout_millis=LIVE_MS,
            body_crc32=registration_crc(body),
            body=body,
        )

    def _permitted(self, topic: TopicSettings) -> TopicSettings:
        """What clients may do with a topic is no more than they may do with the broker."""
        allowed = self._config.permission
        if allowed & _READ_WRITE == _READ_WRITE:
            return topic
        return msgspec.structs.replace(topic, perm=topic.perm & allowed)


def _master(reply: RegisterBrokerReply) -> tuple[str, str] | None:
    if not reply.master_addr:
        return None
    return reply.master_addr, reply.ha_server_addr or ""
