"""Clients that are connected, and what is passed on to them, over sockets."""

from __future__ import annotations

import pytest
from tests.broker.conftest import Ask
from tests.broker.support.asking import message, topic

from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import Subscription
from rocketpipe.protocol.codes import Language, ResponseCode
from rocketpipe.protocol.requests.clients import (
    ConsumerData,
    Heartbeat,
    HeartbeatData,
    ProducerData,
)
from rocketpipe.protocol.requests.running import (
    ClientOffsets,
    ClientOffsetsReply,
    ConsumeDirectly,
    ConsumeDirectlyReply,
    DirectOutcome,
    DirectResult,
    GetAllProducers,
    GetClientOffsets,
    GetConsumerConnections,
    GetOffsetsOfClients,
    GetProducerConnections,
    GetRunningInfo,
    RunningInfo,
    RunningInfoReply,
)
from rocketpipe.record.codec import RecordView
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.router import Call, Router, handles
from rocketpipe.testing import Cluster

pytestmark = pytest.mark.scenario

QUEUE = MessageQueue(topic="t", broker_name="broker-a", queue_id=0)


class Client:
    """Answers as a consumer would, or refuses."""

    def __init__(self) -> None:
        self.asked: list[GetRunningInfo] = []
        self.handled: list[tuple[bytes, str | None]] = []
        self.refuses = False

    @handles(GetRunningInfo)
    async def running(self, request: GetRunningInfo, call: Call) -> RunningInfoReply:
        self.asked.append(request)
        if self.refuses:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "not in the mood")
        return RunningInfoReply(info=RunningInfo(properties={"a": "b"}, stacks="main"))

    @handles(ConsumeDirectly)
    async def consume(self, request: ConsumeDirectly, call: Call) -> ConsumeDirectlyReply:
        self.handled.append((RecordView(request.message).body, request.of_broker))
        return ConsumeDirectlyReply(result=DirectResult(outcome=DirectOutcome.CR_SUCCESS))

    @handles(GetClientOffsets)
    async def offsets(self, request: GetClientOffsets, call: Call) -> ClientOffsetsReply:
        if self.refuses:
            raise RequestRejected(ResponseCode.SYSTEM_ERROR, "not in the mood")
        return ClientOffsetsReply(place=ClientOffsets(offsets={QUEUE: QueueOffset(7)}))


def beat(client_id: str) -> Heartbeat:
    consumer = ConsumerData(group_name="g", subscriptions=(Subscription(topic="t"),))
    return Heartbeat(
        data=HeartbeatData(
            client_id=client_id,
            consumers=(consumer,),
            producers=(ProducerData(group_name="makers"),),
        )
    )


async def test_who_is_connected_is_told_with_what_they_want(servers: Cluster, ask: Ask) -> None:
    for request in (GetConsumerConnections(consumer_group="g"),):
        with pytest.raises(RequestRejected) as nobody:
            await ask(request)
        assert nobody.value.code == ResponseCode.CONSUMER_NOT_ONLINE
    with pytest.raises(RequestRejected, match=r"producer group\[makers\] not exist"):
        await ask(GetProducerConnections(producer_group="makers"))
    await ask(beat("c1"))
    group = (await ask(GetConsumerConnections(consumer_group="g"))).group
    (one,) = group.connections
    assert (one.client_id, one.language) == ("c1", Language.PYTHON)
    assert one.client_addr.startswith("127.0.0.1:")
    assert group.subscriptions["t"].expression == "*"
    (maker,) = (await ask(GetProducerConnections(producer_group="makers"))).group.connections
    assert maker.client_id == "c1"
    (listed,) = (await ask(GetAllProducers())).producers.groups["makers"]
    assert listed.client_id == "c1"
    assert listed.last_update_timestamp > 0


async def test_what_only_a_client_knows_is_passed_on_to_it(servers: Cluster, ask: Ask) -> None:
    client = Client()
    await ask(topic("t"))
    sent = await ask(message("t", b"hello"))
    async with Caller(answer=Router(client).answer) as caller:
        await caller.call(servers.broker, beat("c1"))
        question = GetRunningInfo(consumer_group="g", client_id="c1", jstack_enable=True)
        info = (await ask(question)).info
        assert (info.properties, info.stacks) == ({"a": "b"}, "main")
        assert client.asked[0].jstack_enable is True

        direct = ConsumeDirectly(consumer_group="g", client_id="c1", msg_id=sent.msg_id, topic="t")
        assert (await ask(direct)).result.outcome is DirectOutcome.CR_SUCCESS
        assert client.handled == [(b"hello", "broker-a")]

        places = (await ask(GetOffsetsOfClients(topic="t", group="g"))).place.by_client
        assert places == {"c1": {QUEUE: 7}}

        client.refuses = True
        for refused in (question, GetOffsetsOfClients(topic="t", group="g", client_addr="c1")):
            with pytest.raises(RequestRejected, match="not in the mood"):
                await ask(refused)


@pytest.mark.parametrize(
    ("request_of", "said"),
    [
        (GetRunningInfo(consumer_group="g", client_id="c2"), "<g> <c2> not online"),
        (GetRunningInfo(consumer_group="h", client_id="c1"), "<h> <c1> not online"),
        (ConsumeDirectly(consumer_group="g", client_id="c2"), "<g> <c2> not online"),
        (ConsumeDirectly(consumer_group="g", client_id="c1", msg_id="x"), "msgId is an offset id"),
        (
            ConsumeDirectly(consumer_group="g", client_id="c1", msg_id="0" * 31 + "1"),
            "can not find message",
        ),
        (GetOffsetsOfClients(topic="t", group="h"), "No Any Consumer online"),
        (GetOffsetsOfClients(topic="t", group="g", client_addr="c2"), "<g> <c2> not online"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_who_or_what_is_not_there_is_named(
    ask: Ask, request_of: GetRunningInfo | ConsumeDirectly | GetOffsetsOfClients, said: str
) -> None:
    await ask(beat("c1"))
    with pytest.raises(RequestRejected, match=said):
        await ask(request_of)


async def test_a_client_that_hangs_up_instead_of_answering_is_told(
    servers: Cluster, ask: Ask
) -> None:
    class Rude(Client):
        @handles(GetRunningInfo)
        async def running(self, request: GetRunningInfo, call: Call) -> RunningInfoReply:
            call.peer.abort()
            return RunningInfoReply(info=RunningInfo())

    async with Caller(answer=Router(Rude()).answer) as caller:
        await caller.call(servers.broker, beat("c1"))
        with pytest.raises(RequestRejected, match="invoke consumer <g> <c1> Exception"):
            await ask(GetRunningInfo(consumer_group="g", client_id="c1"))
