"""Sends over a real socket, in every form: the answers, and each refusal with code and remark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.raw_broker import driven_broker
from tests.scenarios.support.sending_wire import exchange, sent, shown

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.command import ONEWAY, Command, HeaderKind
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.routes import GetRouteInfoByTopic
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.cluster import cluster

pytestmark = pytest.mark.scenario

NAMES = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag"),
    *("bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes"),
    *("batch", "bname"),
)
LETTERS = dict(zip("abcdefghijklmn", NAMES, strict=True))
TWO = encode_batch([Entry(0, b"one", b"UNIQ_KEY\x01K1\x02"), Entry(0, b"two", b"")])


def frame(code: int, request: SendMessage, *, long: bool, **changes: Any) -> Command:
    fields = dict(to_command(request, 1).fields)
    if long:
        fields = {LETTERS[letter]: text for letter, text in fields.items()}
    return replace(to_command(request, 1), code=code, fields=fields, **changes)


@pytest.mark.parametrize("header", [HeaderKind.JSON, HeaderKind.BINARY])
@pytest.mark.parametrize(("code", "long"), [(10, True), (310, False), (310, True), (10, False)])
async def test_a_message_is_taken_under_each_code_and_in_each_spelling(
    tmp_path: Path, code: int, long: bool, header: HeaderKind
) -> None:
    async with driven_broker(tmp_path) as driver, Caller() as caller:
        for properties in ("UNIQ_KEY\x01K1\x02", "UNIQ_KEY\x01K1", ""):
            command = frame(code, sent(properties=properties), long=long, header=header)
            answer = await exchange(driver.address, command)
            assert answer is not None
            assert answer.code == 0, answer.remark
            assert answer.fields["queueId"] == "0"
            assert answer.fields["MSG_REGION"] == "DefaultRegion"
            assert answer.fields["TRACE_ON"] == "true"
            assert len(answer.fields["msgId"]) == 32
            assert answer.fields["transactionId"] == "K1" or not properties
        stored = await shown(caller, driver.address)
        assert [message.queue_offset for message in stored] == [0, 1, 2]
        assert all(message.properties["CLUSTER"] == "DefaultCluster" for message in stored)
        assert all(message.properties["UNIQ_KEY"] for message in stored)


@pytest.mark.parametrize("code", [320, 310, 10])
async def test_a_batch_is_taken_under_each_code(tmp_path: Path, code: int) -> None:
    async with driven_broker(tmp_path) as driver, Caller() as caller:
        command = frame(code, sent(body=TWO, batch=True), long=code == 10)
        answer = await exchange(driver.address, command)
        assert answer is not None
        assert answer.code == 0, answer.remark
        stored = await shown(caller, driver.address)
        assert [message.body for message in stored] == [b"one", b"two"]
        assert answer.fields["msgId"] == ",".join(message.offset_id for message in stored)
        assert answer.fields["queueOffset"] == "0"


async def test_a_send_that_wants_no_answer_is_stored(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver, Caller() as caller:
        await caller.call(driver.address, sent())
        assert await exchange(driver.address, replace(to_command(sent(), 1), flag=ONEWAY)) is None
        assert len(await shown(caller, driver.address, least=2)) == 2


async def test_a_created_topic_has_its_route_before_the_send_is_answered(tmp_path: Path) -> None:
    async with cluster(tmp_path) as servers, Caller() as caller:
        await caller.call(servers.broker, sent("fresh"))
        reply = await caller.call(servers.name_server, GetRouteInfoByTopic(topic="fresh"))
        assert [queues.write_queues for queues in reply.route.queues] == [4]


def prepared(tables: Tables) -> None:
    tables.topics.update(TopicSettings(name="t", read_queues=2, write_queues=2), 1)
    tables.topics.update(TopicSettings(name="ordered", ordered=True), 1)
    compacted = {"cleanup.policy": "COMPACTION"}
    tables.topics.update(TopicSettings(name="compacted", attributes=compacted), 1)


@pytest.mark.parametrize(
    ("request_", "settings", "code", "remark"),
    [
        (sent(), {"accept_sends_at_ms": 1 << 42}, 1, "broker unable to service, until "),
        (sent("ordered"), {"permission": 4}, 16, "the broker[broker-a] sending message is forb"),
        (sent("../x"), {}, 29, "topic '../x': "),
        (sent("OFFSET_MOVED_EVENT"), {}, 16, "Sending message to topic[OFFSET_MOVED_EVENT] is fo"),
        (sent("new"), {"auto_create_topics": False}, 17, "topic[new] not exist, apply first pl"),
        (sent("new", default_topic="x"), {}, 17, "topic[new] not exist, apply first please!"),
        (sent(queue_id=2), {}, 29, "request queueId[2] is illegal, topic [t] has 2 queues"),
        (sent("%RETRY%g"), {"auto_create_groups": False}, 26, "subscription group not exist, g"),
        (sent("compacted"), {}, 13, "Required message key is missing"),
        (
            sent(properties="TRAN_MSG\x01true"),
            {"reject_transactions": True},
            16,
            "the broker[broker-a] sending transaction message is forbidden",
        ),
        (sent(properties="TIMER_DELAY_MS\x01x"), {}, 13, "timer message illegal, the delay time"),
        (sent(properties="TIMER_DELAY_SEC\x01259201"), {}, 13, "timer message illegal, the delay"),
        (sent(properties="DELAY\x01soon"), {}, 13, "DELAY is 'soon': a delay level is a whole"),
        (sent(body=bytes(101)), {"max_message_bytes": 100}, 13, "the message body is 101 bytes,"),
        (sent(properties=f"UNIQ_KEY\x01K\x02a\x01{'x' * 32_800}"), {}, 13, "the properties are "),
        (sent(body=b"odd", batch=True), {}, 13, "3 bytes are no entry"),
        (sent("%RETRY%g", TWO, batch=True), {}, 13, "batch request does not support retry group"),
    ],
)
async def test_each_refusal_has_its_code_and_says_why(
    tmp_path: Path, request_: SendMessage, settings: dict[str, Any], code: int, remark: str
) -> None:
    async with driven_broker(tmp_path, prepare=prepared, **settings) as driver:
        answer = await exchange(driver.address, request_)
        assert answer is not None
        assert (answer.code, (answer.remark or "")[: len(remark)]) == (code, remark)
