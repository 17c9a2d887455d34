from __future__ import annotations

import time

import pytest
from tests.proxy.support.calling import GrpcClient, World, message, named

from rocketpipe.protocol.requests.popping import PopMessage
from rocketpipe.proxy.v2 import messaging_pb2 as pb

pytestmark = [pytest.mark.scenario, pytest.mark.asyncio(loop_scope="module")]


def changing(topic: str, group: str, handle: str, ms: int) -> pb.ChangeInvisibleDurationRequest:
    request = pb.ChangeInvisibleDurationRequest(
        group=named(group), topic=named(topic), receipt_handle=handle
    )
    request.invisible_duration.seconds, rest = divmod(ms, 1000)
    request.invisible_duration.nanos = rest * 1_000_000
    return request


async def received(world: World, topic: str, group: str, count: int = 1) -> list[pb.Message]:
    await world.topic(topic)
    await world.client.send(*(message(topic, b"%d" % n) for n in range(count)))
    found = await world.client.messages(topic, group)
    assert len(found) == count
    return found


async def test_what_is_acknowledged_is_over(world: World, client: GrpcClient) -> None:
    found = await received(world, "done", "done-g", 5)
    answer = await client.ack("done", "done-g", *found)
    assert answer.status.code == pb.OK
    assert [each.status.code for each in answer.entries] == [pb.OK] * 5
    assert [each.message_id for each in answer.entries] == [
        each.system_properties.message_id for each in found
    ]
    assert await client.messages("done", "done-g", polling_ms=1) == []
    again = await client.ack("done", "done-g", found[0])
    assert again.status.code in (pb.OK, pb.INVALID_RECEIPT_HANDLE)


async def test_each_receipt_has_its_own_status(world: World, client: GrpcClient) -> None:
    good, expired = await received(world, "each", "each-g", 2)
    fields = expired.system_properties.receipt_handle.split(" ")
    fields[1] = str(int(time.time() * 1000) - 60_000)
    expired.system_properties.receipt_handle = " ".join(fields)
    nonsense = message("each", receipt_handle="nonsense")
    answer = await client.ack("each", "each-g", good, expired, nonsense)
    assert answer.status.code == pb.MULTIPLE_RESULTS
    assert [each.status.code for each in answer.entries] == [
        pb.OK,
        pb.INVALID_RECEIPT_HANDLE,
        pb.INVALID_RECEIPT_HANDLE,
    ]


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "1 2 3",
        "0 9999999999999 60000 0 0 broker-a 0",
        "0 9999999999999 60000 0 0 broker-a 0 77",
        "0 9999999999999 60000 0 0 broker-a 55 0",
        "0 9999999999999 60000 0 0 elsewhere 0 0",
        "x" * 2000,
    ],
)
async def test_a_forged_receipt_is_refused(world: World, client: GrpcClient, forged: str) -> None:
    await world.topic("forged")
    answer = await client.ack("forged", "forged-g", message("forged", receipt_handle=forged))
    assert answer.status.code in (pb.INVALID_RECEIPT_HANDLE, pb.BAD_REQUEST), answer.status.message


async def test_a_message_can_be_hidden_for_longer_and_acknowledged_after(
    world: World, client: GrpcClient
) -> None:
    (one,) = await received(world, "longer", "longer-g")
    before = one.system_properties.receipt_handle
    answer = await client.call(
        "ChangeInvisibleDuration", changing("longer", "longer-g", before, 60_000)
    )
    assert answer.status.code == pb.OK
    assert answer.receipt_handle not in ("", before)
    one.system_properties.receipt_handle = answer.receipt_handle
    assert (await client.ack("longer", "longer-g", one)).status.code == pb.OK


async def test_a_message_shows_again_at_once_where_it_is_hidden_no_longer(
    world: World, client: GrpcClient
) -> None:
    (one,) = await received(world, "soon", "soon-g")
    handle = one.system_properties.receipt_handle
    await client.call("ChangeInvisibleDuration", changing("soon", "soon-g", handle, 0))
    (again,) = await client.messages("soon", "soon-g", polling_ms=20_000)
    assert again.system_properties.delivery_attempt == 2
    assert again.system_properties.message_id == one.system_properties.message_id
    assert again.topic.name == "soon"
    assert (await client.ack("soon", "soon-g", again)).status.code == pb.OK


@pytest.mark.parametrize("ms", [-1, 12 * 3_600_000 + 1])
async def test_no_message_is_hidden_for_such_a_time(
    world: World, client: GrpcClient, ms: int
) -> None:
    answer = await client.call("ChangeInvisibleDuration", changing("t", "g", "h", ms))
    assert answer.status.code == pb.ILLEGAL_INVISIBLE_TIME


async def test_a_message_goes_to_the_dead_letters_and_is_read_there(
    world: World, client: GrpcClient
) -> None:
    (one,) = await received(world, "given-up", "given-up-g")
    said = one.system_properties
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=named("given-up-g"),
        topic=named("given-up"),
        receipt_handle=said.receipt_handle,
        message_id=said.message_id,
        delivery_attempt=17,
        max_delivery_attempts=17,
    )
    answer = await client.call("ForwardMessageToDeadLetterQueue", request)
    assert answer.status.code == pb.OK
    (dead,) = await client.messages("%DLQ%given-up-g", "undertaker")
    assert dead.body == one.body
    assert dead.system_properties.message_id == said.message_id
    assert dead.system_properties.dead_letter_queue.topic == "given-up"
    again = await client.call("ForwardMessageToDeadLetterQueue", request)
    assert again.status.code in (pb.OK, pb.INVALID_RECEIPT_HANDLE)
    request.receipt_handle = said.receipt_handle.rpartition(" ")[0]  # without its place
    again = await client.call("ForwardMessageToDeadLetterQueue", request)
    assert again.status.code == pb.INVALID_RECEIPT_HANDLE


async def test_both_protocols_take_part_in_one_group(world: World, client: GrpcClient) -> None:
    (one,) = await received(world, "both", "both-g")
    await client.send(message("both", b"second"))
    reply = await world.ask(
        PopMessage(
            consumer_group="both-g",
            topic="both",
            queue_id=-1,
            max_msg_nums=8,
            invisible_time=60_000,
            poll_time=0,
            born_time=0,
            init_mode=0,
        )
    )
    assert b"second" in reply.messages
    assert b"\x000" not in reply.messages
    assert (await client.ack("both", "both-g", one)).status.code == pb.OK


async def test_what_is_wrong_with_an_acknowledgement_as_a_whole(
    world: World, client: GrpcClient
) -> None:
    async def code(**said: object) -> int:
        request = pb.AckMessageRequest(
            group=named("g"), topic=named("t"), entries=[pb.AckMessageEntry()]
        )
        for name, value in said.items():
            if name == "entries":
                del request.entries[:]
                request.entries.extend(value)
            else:
                getattr(request, name).name = value
        answer = await client.call("AckMessage", request)
        found: int = answer.status.code
        return found

    assert await code(entries=[]) == pb.BAD_REQUEST
    assert await code(topic="no good") == pb.ILLEGAL_TOPIC
    assert await code(group="no good") == pb.ILLEGAL_CONSUMER_GROUP
    assert await code(entries=[pb.AckMessageEntry()] * 5000) == pb.PAYLOAD_TOO_LARGE
    assert await code(entries=[pb.AckMessageEntry(lite_topic="x")]) == pb.UNSUPPORTED
