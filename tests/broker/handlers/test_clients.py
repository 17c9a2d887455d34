"""Clients that come and go, ask who else is there, and share queues."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.asking import joining
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock

from rocketpipe.background import running
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.handlers.clients import (
    CROWD_MS,
    MAX_CLIENT_ID,
    SCAN_EVERY_MS,
    ClientHandlers,
    LockHandlers,
)
from rocketpipe.broker.intake.topic_provider import TopicProvider
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.tables.clients import SILENT_MS, ClientTable
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.limits import TableLimits
from rocketpipe.broker.tables.queue_locks import LOCK_MS, QueueLocks
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import ConnectionLost
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import MessageModel, Subscription
from rocketpipe.protocol.codes import Language, ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.callbacks import NotifyConsumerIdsChanged
from rocketpipe.protocol.requests.clients import (
    CheckClientConfig,
    ConsumerData,
    GetConsumerListByGroup,
    Heartbeat,
    HeartbeatData,
    LockBatch,
    ProducerData,
    QueueClaim,
    SubscriptionCheck,
    UnlockBatch,
    UnregisterClient,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router


class Peer(PeerConnection):
    """A client whose socket is not there: what it would be told is noted."""

    def __init__(self, router: Router) -> None:
        super().__init__(router.answer, limits=ConnectionLimits())
        self.told: list[str] = []
        self.is_closed = False

    def tell(self, request: Request[Any]) -> None:
        if self.is_closed:
            raise ConnectionLost("client", "closed")
        assert isinstance(request, NotifyConsumerIdsChanged)
        self.told.append(request.consumer_group)

    def close(self) -> None:
        self.is_closed = True


class Broker:
    """Who is there, and what answers them."""

    def __init__(
        self,
        *,
        auto_create: bool = True,
        limits: TableLimits | None = None,
        **settings: Any,
    ) -> None:
        self.clock = SteppedClock()
        self.topics = TopicTable(default_topic_queues=8)
        self.groups = GroupTable(auto_create=auto_create)
        self.clients = ClientTable(limits)
        config = BrokerConfig(data=Path(), name_servers=())
        registrar = Registrar(config, "127.0.0.1:1", self.topics, Caller(), self.clock)
        topic_provider = TopicProvider(
            self.topics, self.groups, registrar, self.clock, random.Random(5)
        )
        locks = QueueLocks(limits)
        self.handlers = ClientHandlers(
            self.clients, self.groups, topic_provider, self.clock, locks=locks, **settings
        )
        self.router = Router(self.handlers, LockHandlers(locks, self.clients, self.clock))
        self.peers = [Peer(self.router) for _ in range(3)]

    async def ask(self, request: Request[Any], peer: int = 0) -> Command:
        answer = await self.router.answer(to_command(request, 1), self.peers[peer])
        await asyncio.sleep(0)  # what members are told goes out in the loop's next turn
        return answer

    async def beat(self, *consumers: ConsumerData, peer: int = 0, **more: Any) -> Command:
        data = HeartbeatData(client_id=f"client-{peer}", consumers=consumers, **more)
        return await self.ask(Heartbeat(data=data), peer)

    def told(self) -> list[list[str]]:
        """What each client was told since the last look."""
        told = [peer.told for peer in self.peers]
        for peer in self.peers:
            peer.told = []
        return told


def consumer(group: str = "g", topic: str = "t", **more: Any) -> ConsumerData:
    return ConsumerData(
        group_name=group, subscriptions=(Subscription(topic=topic, expression="*"),), **more
    )


async def test_members_are_told_who_comes_who_changes_and_who_goes() -> None:
    broker = Broker()
    await broker.beat(consumer())
    assert broker.told() == [["g"], [], []]
    await broker.beat(consumer(), peer=1)
    assert broker.told() == [["g"], ["g"], []]
    await broker.beat(consumer(), peer=1)
    assert broker.told() == [[], [], []]
    await broker.beat(consumer(topic="u"), peer=1)
    assert broker.told() == [["g"], ["g"], []]
    await broker.ask(UnregisterClient(client_id="client-1", consumer_group="g"), peer=1)
    assert broker.told() == [["g"], [], []]
    await broker.ask(UnregisterClient(client_id="client-1", consumer_group="g"), peer=1)
    assert broker.told() == [[], [], []]


async def test_many_changes_at_once_are_told_once() -> None:
    broker = Broker()
    for peer in range(3):
        await broker.beat(consumer(), consumer("h"), peer=peer)
    broker.told()
    broker.handlers.forget_peer(broker.peers[1])
    broker.handlers.forget_peer(broker.peers[2])
    await asyncio.sleep(0)
    assert broker.told() == [["g", "h"], [], []]


async def test_members_of_a_large_group_are_told_of_many_changes_in_one_go() -> None:
    broker = Broker(crowd=1)
    async with running(broker.handlers.keep_current(), "clients"):
        await broker.beat(consumer())
        assert broker.told() == [["g"], [], []]
        for peer in (1, 2):
            await broker.beat(consumer(), peer=peer)
        await broker.clock.advance(CROWD_MS - 1)
        assert broker.told() == [[], [], []]
        await broker.clock.advance(1)
        assert broker.told() == [["g"], ["g"], ["g"]]
        await broker.clock.advance(CROWD_MS)
        assert broker.told() == [[], [], []]


async def test_one_that_does_not_read_is_not_told_more_and_more() -> None:
    broker = Broker()
    await broker.beat(consumer())
    broker.told()
    broker.peers[0].pause_writing()
    await broker.beat(consumer(), peer=1)
    assert broker.told() == [[], ["g"], []]
    broker.peers[0].resume_writing()
    await broker.beat(consumer(), peer=2)
    assert broker.told() == [["g"], ["g"], ["g"]]


async def test_a_member_whose_connection_has_just_ended_keeps_nobody_from_being_told() -> None:
    broker = Broker()
    await broker.beat(consumer())
    await broker.beat(consumer(), peer=1)
    broker.told()
    broker.peers[0].close()
    await broker.beat(consumer(), peer=2)
    assert broker.told() == [[], ["g"], ["g"]]


async def test_members_of_a_broadcast_group_are_told_too() -> None:
    broker = Broker()
    await broker.beat(consumer(message_model=MessageModel.BROADCASTING))
    assert broker.told() == [["g"], [], []]


async def test_nobody_is_told_where_broker_or_group_do_not_want_it() -> None:
    silent = Broker(notify=False)
    await silent.beat(consumer())
    assert silent.told() == [[], [], []]
    broker = Broker()
    broker.groups.update(GroupSettings(name="g", notify_consumer_ids_changed_enable=False), 1)
    await broker.beat(consumer(), consumer("h"))
    assert broker.told() == [["h"], [], []]


async def test_the_members_of_a_group_are_listed_and_of_none_it_is_said() -> None:
    broker = Broker()
    await broker.beat(consumer(), peer=1)
    await broker.beat(consumer())
    request = GetConsumerListByGroup(consumer_group="g")
    reply = read_reply(request, await broker.ask(request))
    assert reply.members.consumer_ids == ("client-0", "client-1")
    answer = await broker.ask(GetConsumerListByGroup(consumer_group="none"))
    assert (answer.code, answer.remark) == (1, "no consumer for this group, none")


async def test_a_heartbeat_says_who_produces_and_with_what() -> None:
    broker = Broker()
    data = HeartbeatData(client_id="c", producers=(ProducerData(group_name="p.1"),))
    command = to_command(Heartbeat(data=data), 1)
    await broker.router.answer(command, broker.peers[0])
    (producer,) = broker.clients.producers("p.1")
    assert (producer.client_id, producer.language) == ("c", Language.PYTHON)
    assert producer.version == command.version
    await broker.ask(UnregisterClient(client_id="c", producer_group="p.1"))
    assert broker.clients.producers("p.1") == []


async def test_a_new_group_and_its_retry_topic_are_made() -> None:
    broker = Broker()
    broker.groups.update(GroupSettings(name="two", retry_queues=2), 1)
    broker.groups.update(GroupSettings(name="none", retry_queues=0), 1)
    assert (await broker.beat(consumer(), consumer("two"), consumer("none"))).code == 0
    assert broker.groups.get("g") == GroupSettings(name="g")
    made = {name: topic.read_queues for name, topic in broker.topics.all().items()}
    assert made == {"TBW102": 8, "%RETRY%g": 1, "%RETRY%two": 2}


async def test_where_groups_are_not_made_the_consumer_is_left_out() -> None:
    broker = Broker(auto_create=False)
    broker.groups.update(GroupSettings(name="known"), 1)
    assert (await broker.beat(consumer(), consumer("known"))).code == 0
    assert broker.clients.consumer_groups() == ["known"]
    assert broker.topics.get("%RETRY%g") is None


@pytest.mark.parametrize(
    ("data", "code", "remark"),
    [
        (HeartbeatData(client_id="c", consumers=(consumer("../g"),)), 29, "group '../g'"),
        (HeartbeatData(client_id="c", consumers=(consumer(topic="../t"),)), 29, "topic '../t'"),
        (HeartbeatData(client_id=""), 29, "a client id has 1 to 1024 characters, not 0"),
        (HeartbeatData(client_id="x" * (MAX_CLIENT_ID + 1)), 29, "not 1025"),
        (
            HeartbeatData(client_id="c", producers=(ProducerData(group_name="x" * 256),)),
            29,
            "a producer group's name has 1 to 255 characters, not 256",
        ),
        (
            HeartbeatData(client_id="c", consumers=(consumer("g"), consumer("h"))),
            1,
            "this broker has 1 consumer groups with members, and takes no more",
        ),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    data: HeartbeatData, code: int, remark: str
) -> None:
    answer = await Broker(limits=TableLimits(online_groups=1)).ask(Heartbeat(data=data))
    assert answer.code == code
    assert remark in str(answer.remark)


async def test_a_client_is_asked_for_subscriptions_whose_fingerprint_is_not_known() -> None:
    broker = Broker()
    yes = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "true"}
    no = {"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": "false"}
    short = ConsumerData(group_name="g")
    # A broker that was restarted knows nothing of it.
    assert (await broker.beat(short, heartbeat_fingerprint=7, without_sub=True)).fields == yes
    assert (await broker.beat(consumer(), heartbeat_fingerprint=7)).fields == yes
    assert (await broker.beat(short, heartbeat_fingerprint=7, without_sub=True)).fields == no
    group = broker.clients.consumer_group("g")
    assert group is not None
    assert group.subscriptions().keys() == {"t"}
    assert (await broker.beat(short, heartbeat_fingerprint=8, without_sub=True)).fields == yes
    assert group.subscriptions().keys() == {"t"}
    assert (await broker.beat(consumer(), heartbeat_fingerprint=7, peer=1)).fields == no
    # Without a fingerprint there is nothing that could be left out.
    assert (await broker.beat(consumer())).fields == yes


async def test_who_sends_no_heartbeat_is_let_go_and_the_others_are_told() -> None:
    broker = Broker()
    await broker.beat(consumer())
    async with running(broker.handlers.keep_current(), "clients"):
        await broker.clock.advance(0)
        await broker.clock.advance(SILENT_MS - SCAN_EVERY_MS)
        await broker.beat(consumer(), peer=1)
        broker.told()
        await broker.clock.advance(2 * SCAN_EVERY_MS)
        assert broker.clients.members("g") == ["client-1"]
        assert [peer.is_closed for peer in broker.peers] == [True, False, False]
        assert broker.told() == [[], ["g"], []]


def check(expression: str, kind: str) -> CheckClientConfig:
    wanted = Subscription(topic="t", expression=expression, expression_type=kind)
    return CheckClientConfig(check=SubscriptionCheck(client_id="c", group="g", subscription=wanted))


@pytest.mark.parametrize(
    ("expression", "kind", "property_filter", "code", "remark"),
    [
        ("A || B", "TAG", False, 0, ""),
        ("a > 5", "SQL92", True, 0, ""),
        ("a >", "SQL92", True, 23, "column"),
        ("a > 5", "SQL92", False, 1, "does not support consumer to filter message by SQL92"),
        ("a > 5", "ODD", True, 23, "'ODD' is no kind of expression"),
    ],
)
async def test_an_expression_is_checked_before_it_is_used(
    expression: str, kind: str, property_filter: bool, code: int, remark: str
) -> None:
    broker = Broker(property_filter=property_filter)
    answer = await broker.ask(check(expression, kind))
    assert answer.code == code
    assert remark in str(answer.remark)


def claim(client_id: str, *queue_ids: int, group: str = "g", topic: str = "t") -> QueueClaim:
    return QueueClaim(
        consumer_group=group,
        client_id=client_id,
        queues=tuple(
            MessageQueue(topic=topic, broker_name="b", queue_id=queue_id) for queue_id in queue_ids
        ),
    )


async def locked(broker: Broker, wanted: QueueClaim, *, joined: bool = True) -> list[int]:
    if joined:
        await broker.ask(joining(wanted.consumer_group, wanted.client_id))
    request = LockBatch(claim=wanted)
    reply = read_reply(request, await broker.ask(request))
    return [queue.queue_id for queue in reply.locked.queues]


async def test_a_lock_with_a_name_that_no_broker_has_is_refused() -> None:
    queue = MessageQueue(topic="t", broker_name="b" * 1_000_000, queue_id=0)
    wanted = QueueClaim(consumer_group="g", client_id="a", queues=(queue,))
    answer = await Broker().ask(LockBatch(claim=wanted))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "more than 127 characters" in str(answer.remark)


async def test_queues_are_locked_renewed_given_back_and_lost_in_time() -> None:
    broker = Broker()
    assert await locked(broker, claim("a", 1, 0)) == [0, 1]
    assert await locked(broker, claim("b", 1, 2)) == [2]
    assert (await broker.ask(UnlockBatch(claim=claim("a", 1)))).code == 0
    assert await locked(broker, claim("b", 0, 1)) == [1]
    await broker.clock.advance(LOCK_MS + 1)
    assert await locked(broker, claim("b", 0)) == [0]


async def test_who_leaves_its_group_leaves_its_queues_and_gets_none_any_more() -> None:
    broker = Broker()
    leave = UnregisterClient(client_id="a", consumer_group="g")
    await broker.ask(joining("g", "b"), peer=1)
    assert await locked(broker, claim("a", 0, 1)) == [0, 1]
    assert await locked(broker, claim("b", 0, 2), joined=False) == [2]
    await broker.ask(leave)
    assert await locked(broker, claim("a", 0), joined=False) == []
    assert await locked(broker, claim("b", 0, 2), joined=False) == [0, 2]


async def test_a_client_that_came_back_by_another_connection_keeps_its_queues() -> None:
    broker = Broker()
    assert await locked(broker, claim("a", 0)) == [0]
    await broker.ask(joining("g", "a"), peer=1)
    await broker.ask(UnregisterClient(client_id="a", consumer_group="g"))
    assert await locked(broker, claim("b", 0)) == []


async def test_who_is_no_member_renews_and_gets_nothing_more() -> None:
    broker = Broker()
    assert await locked(broker, claim("a", 0)) == [0]
    broker.handlers.forget_peer(broker.peers[0])
    # Whose connection ended may be at work all the same, for as long as its lock lasts.
    assert await locked(broker, claim("a", 0, 1), joined=False) == [0]
    assert await locked(broker, claim("b", 0)) == []


@pytest.mark.parametrize("step_ms", [-HOUR_MS, LOCK_MS + 1, HOUR_MS])
async def test_a_queue_has_one_owner_however_the_wall_clock_is_set(step_ms: int) -> None:
    broker = Broker()
    assert await locked(broker, claim("a", 0)) == [0]
    broker.clock.step(step_ms)
    assert await locked(broker, claim("b", 0)) == []
    await broker.clock.advance(LOCK_MS + 1)
    assert await locked(broker, claim("b", 0)) == [0]


@pytest.mark.parametrize(
    ("wanted", "code", "remark"),
    [
        (claim("a", 0, group="../g"), 29, "group '../g'"),
        (claim("a", 0, topic="../t"), 29, "topic '../t'"),
        (claim("", 0), 29, "a client id has"),
        (claim("a", 0, 1, 2), 1, "2 locked queues of group g"),
    ],
)
async def test_a_lock_that_cannot_be_is_refused_with_the_reason(
    wanted: QueueClaim, code: int, remark: str
) -> None:
    broker = Broker(limits=TableLimits(locks=2))
    await broker.ask(joining("g", "a"))
    answer = await broker.ask(LockBatch(claim=wanted))
    assert answer.code == code
    assert remark in str(answer.remark)
