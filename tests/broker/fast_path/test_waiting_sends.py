"""Sends that wait are stored with their turn, as the handlers would store them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.fast_path.test_fast_path import KEY, ask, pull, send

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.core import Core
from rocketpipe.broker.handlers.sending import SendHandlers
from rocketpipe.model.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.command import HeaderKind
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.record.layout import SEAL_BYTES
from rocketpipe.store.config import StoreConfig

LATER_MS = 4_000_000_000_000


@asynccontextmanager
async def serving(data: Path, **settings: Any) -> AsyncIterator[tuple[str, Core]]:
    store = StoreConfig.embedded(data, timer_max_delay_ms=None)
    config = BrokerConfig(data=data, name_servers=(), port=0, store=store, **settings)
    cores: list[Core] = []
    async with broker(config, watch=cores.append) as address:
        cores[0].tables.topics.update(TopicSettings(name="t", read_queues=4, write_queues=4), 1)
        yield address, cores[0]


def stored(core: Core, topic: str, queue_id: int = 0) -> list[RecordView]:
    core.visibility.dispatch()
    found = core.store.read(topic, queue_id, QueueOffset(0), max_count=100)
    return list(view_records(found.records))


def text(*named: str) -> str:
    return "\x02".join((*named, f"UNIQ_KEY\x01{KEY}", "WAIT\x01true\x02"))


WAITING: list[tuple[str, str, int]] = [
    (text("DELAY\x013"), SCHEDULE_TOPIC, 2),
    (text("DELAY\x0199", "KEYS\x01k"), SCHEDULE_TOPIC, 17),
    (text("DELAY\x012", "TIMER_DELAY_SEC\x0160"), SCHEDULE_TOPIC, 1),
    (text(f"TIMER_DELIVER_MS\x01{LATER_MS}"), TIMER_TOPIC, 0),
    (text(f"__STARTDELIVERTIME\x01{LATER_MS}", "POP_CK\x01x"), TIMER_TOPIC, 0),
    (text("TIMER_DELIVER_MS\x011"), "t", 1),
    (text("TRAN_MSG\x01true"), HALF_TOPIC, 0),
    (text("TRAN_MSG\x01true", "PGROUP\x01mine", "DELAY\x014"), HALF_TOPIC, 0),
]


@pytest.mark.parametrize(("properties", "topic", "queue_id"), WAITING)
async def test_it_is_stored_and_answered_as_by_the_handler(
    properties: str,
    topic: str,
    queue_id: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with serving(tmp_path) as (address, core):
        (slow,) = await ask(address, send(7, header=HeaderKind.BINARY, properties=properties))
        monkeypatch.delattr(SendHandlers, "_single")
        (quick,) = await ask(address, send(7, properties=properties))
        assert quick.code == slow.code == 0
        first, second = stored(core, topic, queue_id)
    assert slow.fields == {**quick.fields, "queueOffset": "0", "msgId": slow.fields["msgId"]}
    assert quick.fields["queueOffset"] == "1"
    assert ("recallHandle" in quick.fields) == (topic == TIMER_TOPIC)
    assert quick.fields["msgId"] == second.offset_id
    assert first.raw_properties[:-SEAL_BYTES] == second.raw_properties[:-SEAL_BYTES]
    assert (first.body, first.flag, first.sys_flag) == (second.body, second.flag, second.sys_flag)
    assert (first.born_ms, first.born_host.ip) == (second.born_ms, second.born_host.ip)


async def test_a_turn_may_have_plain_ones_and_others_and_each_hears_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delayed, half = text("DELAY\x011"), text("TRAN_MSG\x01true")
    monkeypatch.delattr(SendHandlers, "_single")
    async with serving(tmp_path) as (address, core):
        commands = [
            send(number, body=b"%d" % number, properties=(text(), delayed, half)[number % 3])
            for number in range(60)
        ]
        answers = await ask(address, *commands)
        offsets = [int(answer.fields["queueOffset"]) for answer in answers]
        assert offsets == [number // 3 for number in range(60)]
        for topic, queue_id, kind in (("t", 1, 0), (SCHEDULE_TOPIC, 0, 1), (HALF_TOPIC, 0, 2)):
            found = stored(core, topic, queue_id)
            assert [int(record.body) for record in found] == list(range(kind, 60, 3))
            ids = [answers[int(record.body)].fields["msgId"] for record in found]
            assert ids == [record.offset_id for record in found]


REFUSED: list[tuple[dict[str, Any], ResponseCode]] = [
    ({"properties": text("DELAY\x01soon")}, ResponseCode.MESSAGE_ILLEGAL),
    ({"properties": text("TIMER_DELAY_MS\x01x")}, ResponseCode.MESSAGE_ILLEGAL),
    ({"properties": text("INNER_NUM\x012")}, ResponseCode.MESSAGE_ILLEGAL),
    ({"properties": text("DELAY\x011"), "topic": "normal"}, ResponseCode.MESSAGE_ILLEGAL),
    ({"properties": text("DELAY\x011"), "queue_id": 9}, ResponseCode.INVALID_PARAMETER),
    ({"properties": text("DELAY\x011"), "topic": SCHEDULE_TOPIC}, ResponseCode.NO_PERMISSION),
    ({"properties": text("DELAY\x011"), "sys_flag": 1 << 7}, ResponseCode.MESSAGE_ILLEGAL),
    ({"properties": text("TRAN_MSG\x01true")}, ResponseCode.NO_PERMISSION),
]


@pytest.mark.parametrize(("fields", "code"), REFUSED)
async def test_what_is_refused_is_refused_in_the_words_of_the_handler(
    fields: dict[str, Any], code: ResponseCode, tmp_path: Path
) -> None:
    async with serving(tmp_path, reject_transactions=True) as (address, core):
        normal = TopicSettings(name="normal", write_queues=4, attributes={"message.type": "NORMAL"})
        core.tables.topics.update(normal, 2)
        (quick,) = await ask(address, send(7, **fields))
        (slow,) = await ask(address, send(7, header=HeaderKind.BINARY, **fields))
    assert (quick.code, quick.remark) == (slow.code, slow.remark)
    assert quick.code == code


@pytest.mark.parametrize(
    "properties",
    [
        "DELAY\x011\x02",  # it is given a key
        text("DELAY\x011").replace("true", "false"),
        f'UNIQ_KEY\x01{KEY}"\x02DELAY\x011',
        f"UNIQ_KEY\x01{KEY}\x02DELAY\x011\x02TAGS\x01ä",
    ],
)
async def test_what_is_unusual_in_another_way_is_left_to_the_handler(
    properties: str, tmp_path: Path
) -> None:
    async with serving(tmp_path) as (address, core):
        (answer,) = await ask(address, send(7, properties=properties))
        assert answer.code == 0
        assert answer.fields["transactionId"]
        (record,) = stored(core, SCHEDULE_TOPIC)
    assert record.body == b"hello"


async def test_what_waits_shows_in_its_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as (address, _):
        await ask(address, *(send(n, properties=text("DELAY\x011")) for n in range(20)))
        (found,) = await ask(address, pull(1, 0, suspend_timeout_millis=10_000, sys_flag=6))
    assert found.code == 0
