"""Who takes a message back is told whether it is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from tests.broker.support.sending_parts import Sender, SendingParts, sent

from rocketpipe.broker.features.timers.handlers import TimerHandlers, TimerStateHandlers
from rocketpipe.broker.features.timers.timers import Timers
from rocketpipe.errors import RequestRejected
from rocketpipe.model.ids import RecallHandle
from rocketpipe.model.names import TIMER_TOPIC
from rocketpipe.protocol.request import read_reply, to_command
from rocketpipe.protocol.requests.replication import GetTimerCheckPoint, GetTimerMetrics
from rocketpipe.protocol.requests.sending import RecallMessage
from rocketpipe.remoting.router import Router
from rocketpipe.store.timers.handover import CHECK, TimerCheck
from rocketpipe.testing.clock import ManualClock


class Recalling:
    """A broker that takes messages back."""

    def __init__(self, root: Path, **config: Any) -> None:
        self.parts = parts = SendingParts(root, ManualClock(), config=config)
        self.timers = Timers(parts.store, parts.intake, parts.clock)
        self._router = Router(
            TimerHandlers(
                parts.config, parts.intake, parts.topic_provider, self.timers, parts.clock
            )
        )

    async def timed(self) -> RecallHandle:
        text = "UNIQ_KEY\x01K\x02TIMER_DELAY_SEC\x0110"
        reply = await self.parts.ask(sent(properties=text))
        return RecallHandle.parse(reply.recall_handle)

    async def recall(self, handle: str, topic: str = "t") -> str:
        request = RecallMessage(topic=topic, recall_handle=handle, producer_group="p")
        answer = await self._router.answer(to_command(request, 1), cast("Any", Sender()))
        return read_reply(request, answer).msg_id


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Recalling]:
    recalling = Recalling(tmp_path)
    yield recalling
    recalling.parts.abandon()


async def test_a_message_is_taken_back_by_its_handle(broker: Recalling) -> None:
    handle = await broker.timed()
    assert await broker.recall(str(handle)) == "K"
    deleted = broker.parts.stored(TIMER_TOPIC)[-1]
    assert deleted.properties["TIMER_DEL_UNIQKEY"] == "t+K"
    assert (deleted.body, deleted.tags) == (b"0", "_RECALL_TAG_")
    await broker.parts.clock.advance(20_000)
    await broker.timers.deliver_due()
    assert broker.parts.stored("t") == []


@pytest.mark.parametrize(
    ("changes", "code", "remark"),
    [
        ({"topic": "u"}, 604, "topic not match"),
        ({"broker": "broker-b"}, 604, "it waits at broker-b"),
        ({"deliver_ms": 5}, 604, "timestamp invalid"),
        ({"unique_key": "L"}, 604, "no message L of t waits here"),
    ],
)
async def test_a_handle_that_does_not_fit_is_refused(
    broker: Recalling, changes: dict[str, Any], code: int, remark: str
) -> None:
    handle = await broker.timed()
    with pytest.raises(RequestRejected, match=f"recall failed, .*{remark}") as refused:
        await broker.recall(str(replace(handle, **changes)))
    assert refused.value.code == code
    assert await broker.recall(str(handle)) == "K"


async def test_what_is_no_handle_is_refused(broker: Recalling) -> None:
    await broker.timed()
    with pytest.raises(RequestRejected, match="recall handle") as refused:
        await broker.recall("nonsense")
    assert refused.value.code == 604
    with pytest.raises(RequestRejected, match=r"the topic\[v\] not exist") as refused:
        await broker.recall("nonsense", "v")
    assert refused.value.code == 17


async def test_where_it_is_switched_off_it_is_forbidden(tmp_path: Path) -> None:
    broker = Recalling(tmp_path, recall=False)
    handle = await broker.timed()
    with pytest.raises(RequestRejected, match="recallMessageEnable") as refused:
        await broker.recall(str(handle))
    assert refused.value.code == 16
    broker.parts.abandon()


class Timing:
    """A broker whose timed messages a slave of Apache's follows."""

    def __init__(self, root: Path) -> None:
        self.parts = SendingParts(root, ManualClock())
        self._router = Router(TimerStateHandlers(self.parts.store, self.parts.clock))

    async def ask(self, request: Any) -> Any:
        answer = await self._router.answer(to_command(request, 1), cast("Any", Sender()))
        return read_reply(request, answer)

    async def check(self) -> TimerCheck:
        numbers = (await self.ask(GetTimerCheckPoint())).numbers
        assert len(numbers) == 56
        return TimerCheck(*CHECK.unpack(numbers))


async def test_a_slave_is_told_up_to_when_timed_messages_were_delivered(tmp_path: Path) -> None:
    broker = Timing(tmp_path)
    parts = broker.parts
    now_ms = parts.clock.now_ms()
    first = await broker.check()
    assert (first.last_read_ms, first.master_queue_offset) == (now_ms // 1000 * 1000, 0)
    await parts.ask(sent(properties="UNIQ_KEY\x01K\x02TIMER_DELAY_SEC\x0110"))
    await parts.clock.advance(60_000)
    late = await broker.check()
    assert late.master_queue_offset == late.queue_offset == 1
    assert now_ms <= late.last_read_ms <= now_ms + 10_000, "it is not delivered yet"
    due = parts.store.derived.timer.due(parts.clock.now_ms(), 1)
    assert (await broker.check()).last_read_ms == late.last_read_ms, "nor while it is handed out"
    parts.store.derived.timer.done(*due)
    assert (await broker.check()).last_read_ms == (now_ms + 60_000) // 1000 * 1000
    metrics = (await broker.ask(GetTimerMetrics())).metrics
    assert metrics.counts == {}
    parts.abandon()
