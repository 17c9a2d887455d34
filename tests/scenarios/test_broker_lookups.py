"""Messages looked for over a real socket: by key, by unique key, and by id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.scenarios.support.raw_broker import driven_broker

from rocketpipe.model.offsets import LogOffset
from rocketpipe.protocol.requests.lookups import QueryMessage, ViewMessageById
from rocketpipe.record.codec import view_records

pytestmark = pytest.mark.scenario

EVER_MS = 1 << 62


def query(key: str, **changes: Any) -> QueryMessage:
    values: dict[str, Any] = {
        "topic": "t",
        "max_num": 10,
        "begin_timestamp": 0,
        "end_timestamp": EVER_MS,
    }
    return QueryMessage(key=key, **{**values, **changes})


async def test_messages_are_found_by_key_newest_first(tmp_path: Path) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send("A", "B", KEYS="order-1 blue")
        await driver.send("C", KEYS="order-2 blue")
        answer = await driver.ask(query("blue"))
        assert answer.code == 0
        found = list(view_records(answer.body))
        assert [record.tags for record in found] == ["C", "B", "A"]
        assert answer.fields == {
            "indexLastUpdateTimestamp": str(found[0].stored_ms),
            "indexLastUpdatePhyoffset": str(found[0].log_offset),
        }
        unique = str(found[1].properties["UNIQ_KEY"])
        by_unique = await driver.ask(query(unique, max_num=1, unique_key=True))
        assert [record.tags for record in view_records(by_unique.body)] == ["B"]
        early = query("blue", end_timestamp=found[-1].stored_ms - 1)
        for none in (query("red"), query("blue", topic="u"), early):
            answer = await driver.ask(none)
            assert answer.code == 22
            assert answer.remark == "can not find message, maybe time range not correct"
        assert (await driver.ask(query("blue", topic="../t"))).code == 29


async def test_a_message_is_seen_by_the_id_that_its_send_was_answered_with(
    tmp_path: Path,
) -> None:
    async with driven_broker(tmp_path) as driver:
        await driver.send("A")
        sent = await driver.send("B")
        offset = int(sent.fields["msgId"][16:], 16)
        answer = await driver.ask(ViewMessageById(offset=LogOffset(offset), topic="t"))
        assert answer.code == 0
        (record,) = view_records(answer.body)
        assert (record.tags, record.offset_id) == ("B", sent.fields["msgId"])
        for wrong in (offset + 1, -1, 1 << 50):
            answer = await driver.ask(ViewMessageById(offset=LogOffset(wrong)))
            assert answer.code == 1
            assert f"can not find message by the offset, {wrong}" in str(answer.remark)
