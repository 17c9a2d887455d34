"""Answers to clients that say who they are, ask who else is there, and share queues."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final, cast

from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client, Consuming
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.queue_locks import QueueLocks
from rocketpipe.clock import Clock
from rocketpipe.errors import (
    ConnectionLost,
    FilterError,
    InvalidName,
    RequestRejected,
    StoreError,
)
from rocketpipe.model.names import check_broker, check_group, check_topic, retry_topic
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import SQL92, TAG
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.callbacks import NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.clients import (
    CheckClientConfig,
    ConsumerData,
    ConsumerIds,
    ConsumerListReply,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatData,
    HeartbeatReply,
    LockBatch,
    LockBatchReply,
    LockedQueues,
    QueueClaim,
    UnlockBatch,
    UnregisterClient,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, handles

log = logging.getLogger(__name__)

SCAN_EVERY_MS: Final = 10_000
#: Members of a group with more of them are told of changes after a while, and then of all at once:
#: a thousand clients that come back together would otherwise be told half a million times.
CROWD: Final = 64
CROWD_MS: Final = 200
MAX_CLIENT_ID: Final = 1024
#: Nothing is named after a producer group, so it may have any letters, but not any number of them.
MAX_PRODUCER_GROUP: Final = 255


class ClientHandlers:
    """Keeps track of who is there, and tells the members of a group when others come and go."""

    def __init__(
        self,
        clients: ClientTable,
        groups: GroupTable,
        topic_provider: TopicProvider | None,
        clock: Clock,
        *,
        notify: bool = True,
        property_filter: bool = True,
        crowd: int = CROWD,
        filters: Filters | None = None,
        locks: QueueLocks | None = None,
    ) -> None:
        """Tell members nothing without ``notify``; know no SQL92 without ``property_filter``.

        Without ``topic_provider`` groups get no retry topic here. Who leaves a group gives back
        what it has of ``locks``.
        """
        self._locks = locks
        self._filters = filters or Filters()
        self._clients = clients
        self._groups = groups
        self._topic_provider = topic_provider
        self._clock = clock
        self._notifies = notify
        self._property_filter = property_filter
        self._crowd = crowd
        self._to_notify: set[str] = set()
        self._crowds_to_notify: set[str] = set()
        self._crowd_changed = asyncio.Event()

    def set_rules(self, *, notify: bool, property_filter: bool) -> None:
        """Change what it was made with."""
        self._notifies = notify
        self._property_filter = property_filter

    @handles(Heartbeat)
    async def heartbeat(self, request: Heartbeat, call: Call) -> HeartbeatReply:
        data = request.data
        _check_heartbeat(data)
        client = Client(
            connection=call.peer,
            client_id=data.client_id,
            language=call.command.language,
            version=call.command.version,
            by=call.by,
        )
        changed: list[str] = []
        news = not data.heartbeat_fingerprint
        for consumer in data.consumers:
            if self._groups.ensure(consumer.group_name, self._clock.now_ms()) is None:
                continue  # its pulls are refused, with the reason
            news = self._is_news(client, consumer, data) or news
            if self._join(client, consumer, data):
                changed.append(consumer.group_name)
        for producer in data.producers:
            self._clients.produce(producer.group_name, client, self._clock.monotonic_ms())
        # Clients look for the retry topics' routes right after this answer.
        await self._make_retry_topics(consumer.group_name for consumer in data.consumers)
        for group in changed:
            self._notify(group)
        return HeartbeatReply(supports_v2=True, sub_changed=news)

    def _is_news(self, client: Client, consumer: ConsumerData, data: HeartbeatData) -> bool:
        """Whether the client is to send its subscriptions along with the next heartbeat."""
        known = self._clients.fingerprint(consumer.group_name, client)
        return data.without_sub if known is None else known != data.heartbeat_fingerprint

    def _join(self, client: Client, consumer: ConsumerData, data: HeartbeatData) -> bool:
        consuming = Consuming(
            consume_type=consumer.consume_type,
            model=consumer.message_model,
            from_where=consumer.consume_from_where,
            # Without a fingerprint it always says what it wants.
            subscriptions=None
            if data.without_sub and data.heartbeat_fingerprint
            else consumer.subscriptions,
            fingerprint=data.heartbeat_fingerprint,
        )
        at_ms = self._clock.monotonic_ms()
        return self._clients.join(consumer.group_name, client, consuming, at_ms)

    async def _make_retry_topics(self, groups: Iterable[str]) -> None:
        if self._topic_provider is None:
            return
        making = []
        for group in groups:
            settings = self._groups.get(group)
            if settings is not None and settings.retry_queues > 0:
                # Java clients skip a heartbeat while one is under way, and then are refused until
                # the next: an answer does not wait for the disk, as they beat again anyway.
                queues = settings.retry_queues
                making.append(
                    self._topic_provider.ensured(retry_topic(group), queues=queues, settle=False)
                )
        await asyncio.gather(*making)

    @handles(UnregisterClient)
    async def unregister(self, request: UnregisterClient, call: Call) -> None:
        if request.producer_group:
            self._clients.stop_producing(request.producer_group, call.peer)
        group = request.consumer_group
        if not group:
            return
        left = self._clients.leave(group, call.peer)
        if self._locks is not None and not self._clients.is_member(group, request.client_id):
            # Java's consumers unlock before, and a round of theirs may lock again meanwhile.
            self._locks.unlock_all(group, request.client_id)
        if left:
            self._notify(group)

    @handles(GetConsumerListByGroup)
    async def members(self, request: GetConsumerListByGroup, call: Call) -> ConsumerListReply:
        members = self._clients.members(request.consumer_group)
        if not members:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"no consumer for this group, {request.consumer_group}",
            )
        return ConsumerListReply(members=ConsumerIds(consumer_ids=tuple(members)))

    @handles(CheckClientConfig)
    async def check(self, request: CheckClientConfig, call: Call) -> None:
        wanted = request.check.subscription
        kind = wanted.expression_type or TAG
        if kind == TAG:
            return
        if not self._property_filter:
            raise RequestRejected(
                ResponseCode.SYSTEM_ERROR,
                f"The broker does not support consumer to filter message by {kind}: "
                "set enablePropertyFilter=true, or use tags",
            )
        if kind != SQL92:
            raise RequestRejected(
                ResponseCode.SUBSCRIPTION_PARSE_FAILED,
                f"{kind[:40]!r} is no kind of expression: use {TAG} or {SQL92}",
            )
        await self._filters.turn(kind, wanted.expression)
        try:
            self._filters.choice(kind, wanted.expression)
        except FilterError as error:
            raise RequestRejected(ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)) from error

    def forget_peer(self, peer: PeerConnection) -> None:
        """A connection ended: its groups have one member less."""
        for group in self._clients.disconnect(peer):
            self._notify(group)

    async def keep_current(self) -> None:
        """Let silent clients go and tell large groups, for as long as the broker runs."""
        try:
            # Of groups that came while another broker led, or nobody: clients look for them now.
            await self._make_retry_topics(self._clients.consumer_groups())
        except (RequestRejected, StoreError) as error:
            log.warning("retry topics are made with the next heartbeats reason=%s", error)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._let_silent_go())
            tasks.create_task(self._tell_crowds())

    async def _let_silent_go(self) -> None:
        while True:
            await self._clock.sleep(SCAN_EVERY_MS)
            groups, silent = self._clients.expire(self._clock.monotonic_ms())
            for client in silent:
                log.info("client was silent for too long client_id=%s", client.client_id)
                cast("PeerConnection", client.connection).close()
            for group in groups:
                self._notify(group)

    async def _tell_crowds(self) -> None:
        while True:
            await self._crowd_changed.wait()
            await self._clock.sleep(CROWD_MS)
            self._crowd_changed.clear()
            groups, self._crowds_to_notify = self._crowds_to_notify, set()
            self._tell(groups)

    def _notify(self, group: str) -> None:
        """Tell the members of a group, once for all changes that come together."""
        settings = self._groups.get(group)
        wanted = settings is None or settings.notify_consumer_ids_changed_enable
        if not (self._notifies and wanted):
            return
        if self._clients.size(group) > self._crowd:
            self._crowds_to_notify.add(group)
            self._crowd_changed.set()
            return
        if not self._to_notify:
            asyncio.get_running_loop().call_soon(self._tell_groups)
        self._to_notify.add(group)

    def _tell_groups(self) -> None:
        groups, self._to_notify = self._to_notify, set()
        self._tell(groups)

    def _tell(self, groups: Iterable[str]) -> None:
        for group in sorted(groups):
            told = NotifyConsumerIdsChanged(consumer_group=group)
            for connection in self._clients.connections(group):
                peer = cast("PeerConnection", connection)
                if peer.is_slow:
                    continue  # it does not take what is there; it looks by itself from time to time
                try:
                    peer.tell(told)
                except ConnectionLost:
                    continue  # it is about to be forgotten, and the others told then


class LockHandlers:
    """Gives queues to ordered consumers, one at a time."""

    def __init__(
        self,
        locks: QueueLocks,
        clients: ClientTable,
        clock: Clock,
        kept: Callable[[Sequence[tuple[str, MessageQueue]]], Awaitable[None]] | None = None,
    ) -> None:
        """Give queues to members; ``kept`` waits until the owners of a group's are on disk."""
        self._locks = locks
        self._clients = clients
        self._clock = clock
        self._kept = kept

    @handles(LockBatch)
    async def lock(self, request: LockBatch, call: Call) -> LockBatchReply:
        claim = request.claim
        _check_claim(claim)
        group, client_id = claim.consumer_group, claim.client_id
        owned = self._locks.lock(
            group,
            client_id,
            claim.queues,
            self._clock.monotonic_ms(),
            # After a restart of this broker locks are renewed before heartbeats come.
            renew_only=not self._clients.is_member(group, client_id),
        )
        if self._kept is not None:
            try:
                await self._kept([(group, queue) for queue in owned])
            except StoreError as error:
                # It has what it was given, and is told when it asks again; nobody else gets it.
                raise RequestRejected(
                    ResponseCode.SYSTEM_ERROR,
                    f"who owns queues cannot be saved: see to the broker's disk: {error}",
                ) from error
        return LockBatchReply(locked=LockedQueues(queues=tuple(sorted(owned))))

    @handles(UnlockBatch)
    async def unlock(self, request: UnlockBatch, call: Call) -> None:
        claim = request.claim
        self._locks.unlock(claim.consumer_group, claim.client_id, claim.queues)


def _check_heartbeat(data: HeartbeatData) -> None:
    _check_client_id(data.client_id)
    for producer in data.producers:
        if not 0 < len(producer.group_name) <= MAX_PRODUCER_GROUP:
            raise RequestRejected(
                ResponseCode.INVALID_PARAMETER,
                f"a producer group's name has 1 to {MAX_PRODUCER_GROUP} characters, "
                f"not {len(producer.group_name)}",
            )
    try:
        for consumer in data.consumers:
            check_group(consumer.group_name)
            for wanted in consumer.subscriptions:
                check_topic(wanted.topic)
    except InvalidName as error:
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _check_claim(claim: QueueClaim) -> None:
    _check_client_id(claim.client_id)
    try:
        check_group(claim.consumer_group)
        for topic in {queue.topic for queue in claim.queues}:
            check_topic(topic)
        # Each lock keeps it, in memory and on disk.
        for broker in {queue.broker_name for queue in claim.queues}:
            check_broker(broker)
    except InvalidName as error:
        raise RequestRejected(ResponseCode.INVALID_PARAMETER, str(error)) from error


def _check_client_id(client_id: str) -> None:
    if not 0 < len(client_id) <= MAX_CLIENT_ID:
        raise RequestRejected(
            ResponseCode.INVALID_PARAMETER,
            f"a client id has 1 to {MAX_CLIENT_ID} characters, not {len(client_id)}",
        )
