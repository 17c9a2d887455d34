"""Send-backs over a real socket: retries, dead letters, and each refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.raw_broker import driven_broker
from tests.scenarios.support.sending_wire import exchange, sent, shown

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.offsets import LogOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.remoting.caller import Caller
from rocketpipe.testing.clock import ManualClock

pytestmark = pytest.mark.scenario


def back(offset: int, **changes: Any) -> SendMessageBack:
    fields: dict[str, Any] = {"offset": LogOffset(offset), "group": "g", "delay_level": 0}
    return SendMessageBack(**{**fields, **changes})


async def test_a_message_comes_again_and_is_a_dead_letter_in_the_end(tmp_path: Path) -> None:
    clock = ManualClock()
    async with driven_broker(tmp_path, clock=clock) as driver, Caller() as caller:
        address = driver.address
        await caller.call(address, sent(properties="UNIQ_KEY\x01K\x02TAGS\x01A\x02KEYS\x01k"))
        (first,) = await shown(caller, address)
        await caller.call(address, back(first.log_offset, max_reconsume_times=2))
        await clock.advance(10_100)
        (second,) = await shown(caller, address, "%RETRY%g", least=1)
        await caller.call(address, back(second.log_offset, max_reconsume_times=2))
        await clock.advance(30_100)
        _, third = await shown(caller, address, "%RETRY%g", least=2)
        await caller.call(address, back(third.log_offset, max_reconsume_times=2))
        (dead,) = await shown(caller, address, "%DLQ%g", least=1)
        assert [each.reconsume_times for each in (first, second, third, dead)] == [0, 1, 2, 3]
        for message in (second, third, dead):
            assert message.body == first.body
            assert message.properties["UNIQ_KEY"] == "K"
            assert message.properties["RETRY_TOPIC"] == "t"
            assert message.properties["ORIGIN_MESSAGE_ID"] == first.offset_id
            assert message.properties["WAIT"] == "false"
        assert (second.properties["DELAY"], third.properties["DELAY"]) == ("3", "4")
        assert dead.properties["DLQ_ORIGIN_TOPIC"] == "t"
        assert dead.properties["DLQ_REASON"] == "failed attempts: 3 of 3"


def prepared(tables: Tables) -> None:
    tables.groups.update(GroupSettings(name="once", retry_queues=0), 1)
    tables.groups.update(GroupSettings(name="kept"), 1)
    tables.topics.update(TopicSettings(name="%RETRY%kept", perm=4), 1)


@pytest.mark.parametrize(
    ("request_", "settings", "code", "remark"),
    [
        (back(0), {"auto_create_groups": False}, 26, "subscription group not exist, g"),
        (back(0, group="../g"), {}, 29, "group '../g': "),
        (back(0), {"permission": 4}, 16, "the broker[broker-a] sending message is forbidden"),
        (back(0, group="kept"), {}, 16, "the topic[%RETRY%kept] sending message is forbidden"),
        (back(7), {}, 1, "look message by offset failed, 7"),
        (back(7, group="once"), {}, 0, ""),
    ],
)
async def test_each_refusal_has_its_code_and_says_why(
    tmp_path: Path, request_: SendMessageBack, settings: dict[str, Any], code: int, remark: str
) -> None:
    async with driven_broker(tmp_path, prepare=prepared, **settings) as driver:
        answer = await exchange(driver.address, request_)
        assert answer is not None
        assert (answer.code, (answer.remark or "")[: len(remark)]) == (code, remark)
