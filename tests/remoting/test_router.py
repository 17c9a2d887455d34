"""From commands to methods."""

from __future__ import annotations

from typing import cast

import pytest

from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import RequestCode, ResponseCode
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import read_reply, to_command
from rocketpipe.protocol.requests.offsets import (
    GetMaxOffset,
    GetMinOffset,
    OffsetReply,
    QueryConsumerOffset,
)
from rocketpipe.remoting.connection import PeerConnection
from rocketpipe.remoting.router import Call, Router, handled_requests, handles


class Offsets:
    @handles(GetMinOffset)
    async def least(self, request: GetMinOffset, call: Call) -> OffsetReply:
        return OffsetReply(offset=QueueOffset(request.queue_id + 40))

    @handles(GetMaxOffset)
    async def greatest(self, request: GetMaxOffset, call: Call) -> OffsetReply:
        raise RequestRejected(ResponseCode.TOPIC_NOT_EXIST, f"no {request.topic}")

    @handles(QueryConsumerOffset)
    async def broken(self, request: QueryConsumerOffset, call: Call) -> OffsetReply:
        raise ZeroDivisionError("a secret of the implementation")


class Peer:
    address = "127.0.0.1:1"


PEER = cast("PeerConnection", Peer())


async def answer(command: Command) -> Command:
    return await Router(Offsets()).answer(command, PEER)


async def test_a_request_reaches_its_method_and_the_answer_its_sender() -> None:
    request = GetMinOffset(topic="t", queue_id=2)
    reply = await answer(to_command(request, opaque=7))
    assert reply.opaque == 7
    assert reply.is_response
    assert read_reply(request, reply).offset == 42


async def test_a_refusal_carries_its_code_and_remark() -> None:
    reply = await answer(to_command(GetMaxOffset(topic="t", queue_id=0), opaque=1))
    assert (reply.code, reply.remark) == (ResponseCode.TOPIC_NOT_EXIST, "no t")


async def test_an_unknown_code_is_refused_in_the_words_java_peers_expect() -> None:
    reply = await answer(Command(code=RequestCode.LOCK_BATCH_MQ, opaque=1))
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert reply.remark == " request type 41 not supported"


async def test_a_missing_field_is_refused_by_name() -> None:
    command = Command(code=RequestCode.GET_MIN_OFFSET, opaque=1, fields={"topic": "t"})
    reply = await answer(command)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "queueId" in (reply.remark or "")


async def test_a_failing_method_tells_the_peer_nothing_of_its_inside(
    caplog: pytest.LogCaptureFixture,
) -> None:
    request = QueryConsumerOffset(consumer_group="g", topic="t", queue_id=0)
    reply = await answer(to_command(request, opaque=1))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "secret" not in (reply.remark or "")
    assert "secret" in caplog.text


def test_two_methods_for_one_code_are_a_mistake_found_at_start() -> None:
    with pytest.raises(AssertionError, match="two methods"):
        Router(Offsets(), Offsets())


def test_the_codes_a_router_serves_are_those_of_its_marks() -> None:
    assert Router(Offsets()).codes == {14, 30, 31}
    assert {kind.__name__ for kind in handled_requests(Offsets)} == {
        "GetMinOffset",
        "GetMaxOffset",
        "QueryConsumerOffset",
    }


async def test_a_request_that_was_read_elsewhere_reaches_its_method() -> None:
    router = Router(Offsets())
    asked = GetMinOffset(topic="t", queue_id=2)
    assert (await router.ask(asked, PEER, None, None)).offset == 42
    with pytest.raises(RequestRejected, match="no t"):
        await router.ask(GetMaxOffset(topic="t", queue_id=0), PEER, None, None)
    with pytest.raises(RequestRejected, match="not supported"):
        await Router().ask(asked, PEER, None, None)
