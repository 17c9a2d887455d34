"""Replies reach whoever asked, or their senders hear why not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.sending_parts import HOST, SendingParts

from rocketpipe.auth.gate import Principal
from rocketpipe.broker.features.replies.handlers import PUSH_TIMEOUT_MS, ReplyHandlers
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client
from rocketpipe.errors import ConnectionLost, RequestRejected
from rocketpipe.model import properties
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.callbacks import PushReplyMessage
from rocketpipe.protocol.requests.sending import SendMessageReply, SendReply
from rocketpipe.remoting.router import Call
from rocketpipe.testing.clock import ManualClock

TOPIC = "DefaultCluster_REPLY_TOPIC"


class Asker:
    """A producer's connection, as far as a reply needs it."""

    address = "10.0.0.3:50001"
    packed_host = HOST

    def __init__(self) -> None:
        self.pushed: list[PushReplyMessage] = []
        self.is_slow = False
        self.error: Exception | None = None

    async def call(self, request: PushReplyMessage, timeout_ms: int) -> None:
        assert timeout_ms == PUSH_TIMEOUT_MS
        if self.error is not None:
            raise self.error
        self.pushed.append(request)


class ReplyingParts(SendingParts):
    """The parts that a reply goes through, and one producer that waits for it."""

    def __init__(self, root: Path, **config: Any) -> None:
        super().__init__(root, ManualClock(), config=config)
        self.asker = Asker()
        self.connected = connected = ClientTable()
        connected.produce("p", Client(connection=self.asker, client_id="client-1"), 0)
        self._replies = ReplyHandlers(
            self.config, "127.0.0.1:10911", self.intake, connected, self.stamp, self.clock
        )

    async def reply(self, **changes: Any) -> SendMessageReply:
        request = reply(**changes)
        call = Call(cast("Any", self.asker), to_command(request, 1))
        return await self._replies.reply(request, call)


def reply(**changes: Any) -> SendReply:
    fields: dict[str, Any] = {
        "producer_group": "g",
        "topic": TOPIC,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 1,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 5,
        "flag": 6,
        "properties": "UNIQ_KEY\x01K\x02CORRELATION_ID\x01id\x02REPLY_TO_CLIENT\x01client-1\x02",
        "body": b"yes",
    }
    return SendReply(**{**fields, **changes})


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[ReplyingParts]:
    parts = ReplyingParts(tmp_path)
    yield parts
    parts.abandon()


async def test_a_reply_is_pushed_and_kept(parts: ReplyingParts) -> None:
    answer = await parts.reply()
    (pushed,) = parts.asker.pushed
    named = properties.decode(pushed.properties)
    assert named["CORRELATION_ID"] == "id"
    assert named["PUSH_REPLY_TIME"] == str(parts.clock.now_ms())
    assert (pushed.body, pushed.flag, pushed.born_host) == (b"yes", 6, "10.0.0.3:50001")
    assert pushed.store_host == "127.0.0.1:10911"
    (kept,) = parts.stored(TOPIC)
    assert (kept.body, kept.offset_id) == (b"yes", answer.msg_id)
    assert "PUSH_REPLY_TIME" not in kept.properties
    assert answer.region is not None
    assert answer.trace_on is not None


async def test_a_reply_is_for_nobody_if_another_user_says_to_be_the_asker(
    parts: ReplyingParts,
) -> None:
    spy = Asker()
    whose = Principal("spy", False, "10.0.0.9:1", "10.0.0.9")
    parts.connected.produce("a", Client(connection=spy, client_id="client-1", by=whose), 0)
    with pytest.raises(RequestRejected, match="several users say to be <client-1>"):
        await parts.reply()
    assert spy.pushed == parts.asker.pushed == []


async def test_a_reply_need_not_be_kept(tmp_path: Path) -> None:
    parts = ReplyingParts(tmp_path, store_replies=False)
    answer = await parts.reply()
    assert (answer.msg_id, answer.queue_offset) == ("0", 0)
    assert len(parts.asker.pushed) == 1
    assert parts.stored(TOPIC) == []
    parts.abandon()


async def test_a_reply_in_vain_says_why_and_is_kept(parts: ReplyingParts) -> None:
    for text, why in (
        ("UNIQ_KEY\x01K\x02", r"properties\[REPLY_TO_CLIENT\] is null"),
        ("REPLY_TO_CLIENT\x01another\x02", "channel of <another> not found"),
    ):
        with pytest.raises(RequestRejected, match=why) as refused:
            await parts.reply(properties=text)
        assert refused.value.code == 1
    parts.asker.error = ConnectionLost("10.0.0.3:50001", "gone")
    with pytest.raises(RequestRejected, match=r"push reply message to client-1 fail.*gone"):
        await parts.reply()
    parts.asker.is_slow = True
    with pytest.raises(RequestRejected, match="does not take"):
        await parts.reply()
    kept = parts.stored(TOPIC)
    assert len(kept) == 4
    assert all(record.properties["UNIQ_KEY"] for record in kept)


@pytest.mark.parametrize(
    ("changes", "code"),
    [({"topic": "another_REPLY_TOPIC"}, 29), ({"body": b""}, 13), ({"body": bytes(5 << 20)}, 13)],
)
async def test_what_is_no_reply_here_is_refused_and_pushed_to_nobody(
    parts: ReplyingParts, changes: dict[str, Any], code: int
) -> None:
    with pytest.raises(RequestRejected) as refused:
        await parts.reply(**changes)
    assert refused.value.code == code
    assert parts.asker.pushed == []
    assert parts.stored(TOPIC) == []


async def test_a_reply_that_cannot_be_kept_has_arrived_all_the_same(parts: ReplyingParts) -> None:
    answer = await parts.reply(
        properties="REPLY_TO_CLIENT\x01client-1\x02" + "p\x01" + "v" * 32_700 + "\x02"
    )
    assert answer.msg_id == "0"
    assert len(parts.asker.pushed) == 1
