"""What brokers say to clients reaches those whom it concerns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.client.support.session_parts import Part

from rocketpipe.client.callbacks import CallbackHandlers
from rocketpipe.errors import RecordError, RequestRejected
from rocketpipe.model.host import Host
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeType, Subscription
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.requests.callbacks import (
    CheckTransactionState,
    NotifyConsumerIdsChanged,
    ResetConsumerClientOffset,
    write_reset,
)
from rocketpipe.protocol.requests.clients import ConsumerData
from rocketpipe.protocol.requests.running import (
    ConsumeDirectly,
    DirectResult,
    GetClientOffsets,
    GetRunningInfo,
    RunningInfo,
)
from rocketpipe.record.codec import RecordView, encode_record
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Call, Router

QUEUE = MessageQueue(topic="t", broker_name="a", queue_id=1)


def handlers(*members: Part) -> CallbackHandlers:
    return CallbackHandlers(lambda: members)


def call() -> Call:
    peer = PeerConnection(Router().answer, limits=ConnectionLimits())
    return Call(peer, Command(code=40, opaque=1))


async def test_a_change_of_members_concerns_the_groups_own() -> None:
    ours, other = Part(consumes=["g", "h"]), Part(consumes=["i"], produces=["g"])
    await handlers(ours, other).ids_changed(NotifyConsumerIdsChanged(consumer_group="g"), call())
    assert (ours.changed_groups, other.changed_groups) == (["g"], [])


@pytest.mark.parametrize("as_list", [False, True])
async def test_a_reset_names_the_queues_of_its_topic(as_list: bool) -> None:
    ours, other = Part(consumes=["g"]), Part(consumes=["h"])
    elsewhere = MessageQueue(topic="u", broker_name="a", queue_id=1)
    none = MessageQueue(topic="t", broker_name="a", queue_id=2)
    offsets = {QUEUE: QueueOffset(7), elsewhere: QueueOffset(8), none: QueueOffset(-1)}
    request = ResetConsumerClientOffset(
        topic="t", group="g", timestamp=0, body=write_reset(offsets, as_list=as_list)
    )
    await handlers(ours, other).reset(request, call())
    assert ours.resets == [("g", {QUEUE: 7})]
    assert other.resets == []


async def test_a_reset_that_cannot_be_read_is_refused() -> None:
    request = ResetConsumerClientOffset(topic="t", group="g", timestamp=0, body=b"{")
    with pytest.raises(RequestRejected):
        await handlers(Part(consumes=["g"])).reset(request, call())


class Asked(Part):
    """A producer that is asked about transactions."""

    def __init__(self, *groups: str) -> None:
        super().__init__(produces=groups)
        self.asked: list[str] = []

    def on_transaction_check(
        self, question: CheckTransactionState, message: RecordView, address: str
    ) -> None:
        self.asked.append(message.message_id)


def question(group: str) -> CheckTransactionState:
    text = f"UNIQ_KEY\x01K\x02PGROUP\x01{group}\x02".encode()
    host = Host.parse("127.0.0.1:10911")
    half = StoredMessage(
        topic="t",
        body=b"x",
        raw_properties=text,
        queue_id=0,
        queue_offset=QueueOffset(1),
        log_offset=LogOffset(2),
        born_ms=3,
        born_host=host,
        stored_ms=4,
        store_host=host,
    )
    return CheckTransactionState(
        tran_state_table_offset=QueueOffset(1),
        commit_log_offset=LogOffset(2),
        message=encode_record(half),
    )


async def test_a_transaction_is_asked_about_once_of_a_producer_of_its_group() -> None:
    other, ours, second = Asked("h"), Asked("g"), Asked("g")
    members = handlers(Part(produces=["g"]), other, ours, second)
    await members.check_transaction(question("g"), call())
    assert (other.asked, ours.asked, second.asked) == ([], ["K"], [])
    await members.check_transaction(question("nobody"), call())
    assert (other.asked, ours.asked, second.asked) == ([], ["K"], [])


async def test_a_question_without_a_message_is_refused() -> None:
    broken = CheckTransactionState(
        tran_state_table_offset=QueueOffset(1), commit_log_offset=LogOffset(2), message=b"x"
    )
    with pytest.raises(RequestRejected):
        await handlers(Asked("g")).check_transaction(broken, call())


async def test_members_that_take_no_resets_are_passed_over() -> None:
    class Plain:
        def producer_groups(self) -> Sequence[str]:
            return ()

        consumers = Part(consumes=["g"]).consumers

        def topics(self) -> Sequence[str]:
            return ()

        def on_ids_changed(self, group: str) -> None: ...

        def on_routes_changed(self, topic: str) -> None: ...

    request = ResetConsumerClientOffset(
        topic="t", group="g", timestamp=0, body=write_reset({QUEUE: QueueOffset(7)})
    )
    heard = Part(consumes=["g"])
    await CallbackHandlers(lambda: (Plain(), heard)).reset(request, call())
    assert heard.resets == [("g", {QUEUE: 7})]


class Telling(Part):
    """A consumer that has something to tell."""

    def running_info(self, group: str, *, stacks: bool) -> RunningInfo:
        return RunningInfo(properties={"group": group}, stacks="here" if stacks else None)

    def places(self, group: str, topic: str) -> dict[MessageQueue, QueueOffset]:
        return {QUEUE: QueueOffset(7)} if topic == "t" else {}

    async def consume_directly(self, record: bytes, broker_name: str) -> DirectResult:
        if not record:
            raise RecordError("nothing is no record")
        return DirectResult(remark=f"{len(record)} bytes of {broker_name}")


async def test_questions_of_an_operator_reach_the_groups_own() -> None:
    found = handlers(Part(consumes=["g"]), Telling(consumes=["g"]), Telling(consumes=["h"]))
    question = GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True)
    info = (await found.running_info(question, call())).info
    assert (info.properties, info.stacks) == ({"group": "g"}, "here")
    place = (await found.offsets(GetClientOffsets(topic="t", group="g"), call())).place
    assert place.offsets == {QUEUE: 7}
    direct = ConsumeDirectly(consumer_group="g", of_broker="a", message=b"xyz")
    result = (await found.consume_directly(direct, call())).result
    assert result.remark == "3 bytes of a"
    with pytest.raises(RequestRejected, match="nothing is no record"):
        await found.consume_directly(ConsumeDirectly(consumer_group="g"), call())


async def test_a_consumer_without_more_to_tell_is_told_of_as_heartbeats_have_it() -> None:
    wanted = Subscription(topic="t", expression="A", version=17)

    class Popping(Part):
        def consumers(self) -> Sequence[ConsumerData]:
            pops = ConsumeType.CONSUME_POP
            return [ConsumerData(group_name="g", consume_type=pops, subscriptions=(wanted,))]

    found = handlers(Popping())
    question = GetRunningInfo(consumer_group="g", client_id="c", jstack_enable=True)
    info = (await found.running_info(question, call())).info
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_POP"
    assert info.properties["PROP_CONSUMER_START_TIMESTAMP"] == "17"
    assert info.subscriptions == (wanted,)
    assert "at running_info (" in (info.stacks or "")


async def test_a_group_that_is_not_here_is_named() -> None:
    found = handlers(Part(consumes=["f"]), Telling(consumes=["h"]))
    with pytest.raises(RequestRejected, match="<g> not exist in this consumer"):
        await found.running_info(GetRunningInfo(consumer_group="g", client_id="c"), call())
    with pytest.raises(RequestRejected, match="<g> not exist in this consumer"):
        await found.consume_directly(ConsumeDirectly(consumer_group="g"), call())
    place = (await found.offsets(GetClientOffsets(topic="t", group="g"), call())).place
    assert place.offsets == {}
