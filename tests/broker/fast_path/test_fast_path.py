"""The hot path answers as the handlers do, and leaves to them what it does not know."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE_S

from rocketpipe.broker.broker import broker
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.fast_path import pulling
from rocketpipe.broker.fast_path.sending import plain_queues
from rocketpipe.broker.intake.room import PLAIN_ROOM
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.topic import TopicFilterType, TopicSettings
from rocketpipe.protocol.command import ONEWAY, Command, HeaderKind
from rocketpipe.protocol.connection import Connection
from rocketpipe.protocol.frame import encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.record.codec import view_records
from rocketpipe.record.layout import MAX_PROPERTIES_BYTES, SEAL_BYTES
from rocketpipe.remoting.caller import split_address
from rocketpipe.store.config import FlushMode, StoreConfig

KEY = "7F0000010001" + "0" * 20


@asynccontextmanager
async def serving(data: Path, **store: Any) -> AsyncIterator[str]:
    config = BrokerConfig(
        data=data, name_servers=(), port=0, store=StoreConfig.embedded(data, **store)
    )
    async with broker(config) as address:
        yield address


async def ask(address: str, *commands: Command) -> list[Command]:
    """Write all of them at once; the answers, in the order of their opaques."""
    reader, writer = await asyncio.open_connection(*split_address(address))
    writer.write(b"".join(map(encode_frame, commands)))
    wire = Connection()
    answers: list[Command] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(answers) < len(commands):
            data = await reader.read(1 << 16)
            assert data, "the connection was closed"
            answers += wire.receive(data)
    writer.close()
    return sorted(answers, key=lambda answer: answer.opaque)


def send(opaque: int, *, header: HeaderKind = HeaderKind.JSON, **fields: Any) -> Command:
    request = SendMessage(
        **{
            "producer_group": "p",
            "topic": "t",
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 1,
            "sys_flag": 0,
            "born_timestamp": 1_700_000_000_000,
            "flag": 5,
            "properties": f"KEYS\x01k\x02UNIQ_KEY\x01{KEY}\x02TAGS\x01a\x02WAIT\x01true\x02",
            "body": b"hello",
            **fields,
        }
    )
    return replace(to_command(request, opaque), header=header)


def pull(opaque: int, offset: int, *, header: HeaderKind = HeaderKind.JSON, **more: Any) -> Command:
    request = PullMessage(
        **{
            "consumer_group": "g",
            "topic": "t",
            "queue_id": 1,
            "queue_offset": QueueOffset(offset),
            "max_msg_nums": 32,
            "sys_flag": int(PullFlag.SUBSCRIPTION),
            "commit_offset": QueueOffset(0),
            "suspend_timeout_millis": 0,
            "subscription": "*",
            "sub_version": 0,
            **more,
        }
    )
    return replace(to_command(request, opaque), header=header)


PLAIN: list[dict[str, Any]] = [
    {},
    {"properties": f"UNIQ_KEY\x01{KEY}"},
    {"properties": f"TAGS\x01ä\x02UNIQ_KEY\x01{KEY}\x02"},
    {"properties": f'UNIQ_KEY\x01{KEY}"\\\x02'},
    {"sys_flag": 1, "flag": -1, "body": zlib.compress(b"hello")},
    {"sys_flag": 4 | 8 | 16 | 32},
    {"body": b""},
    {"unit_mode": True, "max_reconsume_times": 3},
]


@pytest.mark.parametrize("fields", PLAIN)
async def test_the_lane_stores_and_answers_as_the_handler_does(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    async with serving(tmp_path) as address:
        await ask(address, send(1, queue_id=0))  # makes the topic
        (quick,) = await ask(address, send(7, **fields))
        (slow,) = await ask(address, send(7, header=HeaderKind.BINARY, **fields))
        assert quick.code == slow.code == 0
        (found,) = await ask(address, pull(1, 0))
    assert slow.fields == {
        **quick.fields,
        "queueOffset": "1",
        "msgId": slow.fields["msgId"],
    }
    first, second = view_records(found.body)
    assert quick.fields["msgId"] == first.offset_id
    assert slow.fields["msgId"] == second.offset_id
    assert first.body == second.body
    assert first.raw_properties[:-SEAL_BYTES] == second.raw_properties[:-SEAL_BYTES]
    assert first.sys_flag == second.sys_flag
    assert first.flag == second.flag
    assert first.born_ms == second.born_ms
    assert first.reconsume_times == second.reconsume_times == 0


@pytest.mark.parametrize(
    "texts",
    [
        [f"UNIQ_KEY\x01{KEY}{n}\x02TAGS\x01a\x02" for n in range(3)],
        [f"UNIQ_KEY\x01{KEY}"],
        ["", "TAGS\x01a"],  # without keys: for the handler, which makes some
    ],
)
@pytest.mark.parametrize("own", ["WAIT\x01true\x02", f"UNIQ_KEY\x01{KEY}", "UNIQ_KEY\x01\x02", ""])
async def test_a_batch_in_the_lane_is_stored_and_answered_as_the_handler_does(
    own: str, texts: list[str], tmp_path: Path
) -> None:
    entries = [Entry(n, b"body %d" % n, text.encode()) for n, text in enumerate(texts)]
    batch = {"batch": True, "body": encode_batch(entries), "properties": own}
    async with serving(tmp_path) as address:
        await ask(address, send(1, queue_id=0))
        (quick,) = await ask(address, send(7, **batch))
        (slow,) = await ask(address, send(7, header=HeaderKind.BINARY, **batch))
        assert quick.code == slow.code == 0
        (found,) = await ask(address, pull(1, 0))
    records = list(view_records(found.body))
    count = len(entries)
    assert quick.fields["msgId"] == ",".join(record.offset_id for record in records[:count])
    assert slow.fields == {
        **quick.fields,
        "queueOffset": str(count),
        "msgId": ",".join(record.offset_id for record in records[count:]),
    }
    for entry, first, second in zip(entries, records[:count], records[count:], strict=True):
        assert first.body == second.body == entry.body
        assert first.flag == second.flag == entry.flag
        if "UNIQ_KEY" in texts[0]:
            assert first.properties.items() - second.properties.items() <= {
                ("__CRC32#", first.properties["__CRC32#"]),
                ("__BATCH#", first.properties.get("__BATCH#")),
            }


@pytest.mark.parametrize("body", [b"", b"\0\0\0\1", encode_batch([Entry(0, b"", b"")])[:-1]])
async def test_a_batch_that_does_not_add_up_is_refused(body: bytes, tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        await ask(address, send(1))
        (refused,) = await ask(address, send(2, batch=True, body=body))
    assert refused.code == 13


async def test_a_pull_in_the_lane_is_answered_as_the_handler_does(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        await ask(address, send(1))
        await ask(address, *(send(n, body=b"%d" % n) for n in range(2, 50)))
        for more in ({}, {"max_msg_nums": 3}, {"max_msg_bytes": 300}, {"bulk": True}):
            (quick,) = await ask(address, pull(1, 2, **more))
            (slow,) = await ask(address, pull(1, 2, header=HeaderKind.BINARY, **more))
            assert quick == replace(slow, header=HeaderKind.JSON)
            assert quick.body
        (nothing,) = await ask(address, pull(1, 2, subscription="b"))
        assert nothing.remark == "NO_MATCHED_MESSAGE"
        (moved,) = await ask(address, pull(1, 99))
        assert moved.remark == "OFFSET_OVERFLOW_BADLY"


async def test_what_one_read_brings_is_stored_in_its_order_and_all_answered(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as address:
        await ask(address, send(1))
        answers = await ask(address, *(send(n, queue_id=n % 2) for n in range(2, 302)))
        assert [answer.code for answer in answers] == [0] * 300
        evens = [int(answer.fields["queueOffset"]) for answer in answers[::2]]
        odds = [int(answer.fields["queueOffset"]) for answer in answers[1::2]]
    assert evens == list(range(150))
    assert odds == list(range(1, 151))


async def test_a_oneway_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as address:
        await ask(address, send(1))
        reader, writer = await asyncio.open_connection(*split_address(address))
        oneway = [replace(send(n, body=b"%d" % n), flag=ONEWAY) for n in range(2, 1002)]
        writer.write(b"".join(map(encode_frame, [*oneway, send(2000)])))
        (answer,) = Connection().receive(await reader.read(1 << 16))
        assert (answer.opaque, answer.fields["queueOffset"]) == (2000, "1001")
        (found,) = await ask(address, pull(1, 1, bulk=True, max_msg_nums=4096))
        bodies = [each.body for each in view_records(found.body)]
        assert bodies == [*(b"%d" % n for n in range(2, 1002)), b"hello"]
        writer.close()


async def test_a_send_among_others_that_cannot_be_stored_is_refused_alone(
    tmp_path: Path,
) -> None:
    # With what the broker adds it is not too long, but with the store's checksum it is.
    long = f"UNIQ_KEY\x01{KEY}\x02a\x01".ljust(32_690, "x") + "\x02"
    async with serving(tmp_path) as address:
        await ask(address, send(1))
        answers = await ask(address, send(2), send(3, properties=long), send(4))
    assert [answer.code for answer in answers] == [0, 13, 0]


@pytest.mark.parametrize("batch", [False, True])
async def test_the_longest_properties_are_the_same_in_the_lane_and_at_the_handlers(
    tmp_path: Path, batch: bool
) -> None:
    def text(size: int) -> str:
        return f"UNIQ_KEY\x01{KEY}\x02a\x01".ljust(size - 1, "x") + "\x02"

    def sized(opaque: int, size: int, header: HeaderKind) -> Command:
        if not batch:
            return send(opaque, properties=text(size), header=header)
        body = encode_batch([Entry(0, b"a", text(size).encode())])
        return send(opaque, body=body, batch=True, header=header)

    suffix = len("MSG_REGION\x01DefaultRegion\x02TRACE_ON\x01true\x02CLUSTER\x01DefaultCluster\x02")
    most = MAX_PROPERTIES_BYTES - PLAIN_ROOM - suffix
    async with serving(tmp_path) as address:
        await ask(address, send(1))
        for header in HeaderKind.JSON, HeaderKind.BINARY:
            sizes = (most - 1, most, most + 1)
            answers = await ask(
                address, *(sized(n, size, header) for n, size in enumerate(sizes, 2))
            )
            assert [answer.code for answer in answers] == [0, 0, 13]
            assert f"room of {PLAIN_ROOM}" in (answers[2].remark or "")


async def test_the_longest_record_is_the_same_in_the_lane_and_at_the_handlers(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, segment_bytes=128 << 10) as address:
        await ask(address, send(1))
        for header in HeaderKind.JSON, HeaderKind.BINARY:
            sizes = (90_000, (128 << 10) - 1500, (128 << 10) - 500)
            answers = await ask(
                address,
                *(send(n, body=bytes(size), header=header) for n, size in enumerate(sizes, 2)),
            )
            assert [answer.code for answer in answers] == [0, 0, 13]
            assert "mapedFileSizeCommitLog" in (answers[2].remark or "")


async def test_a_durable_broker_answers_after_the_sync(tmp_path: Path) -> None:
    async with serving(tmp_path, flush=FlushMode.SYNC) as address:
        await ask(address, send(1))
        answers = await ask(address, *(send(n) for n in range(2, 66)))
        assert [answer.code for answer in answers] == [0] * 64
        (found,) = await ask(address, pull(1, 64))
        assert len(list(view_records(found.body))) == 1


async def test_a_peer_that_pulls_and_never_reads_does_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    real = pulling.pull_reply_head

    def counted(*arguments: Any) -> bytes:
        nonlocal reads
        reads += 1
        return real(*arguments)

    monkeypatch.setattr(pulling, "pull_reply_head", counted)
    async with serving(tmp_path) as address:
        await ask(address, send(1, body=bytes(200_000)))
        reader, writer = await asyncio.open_connection(*split_address(address), limit=1)
        writer.write(b"".join(encode_frame(pull(n, 0)) for n in range(1000)))
        await writer.drain()
        # Others are served meanwhile, and each of their answers is a turn of the loop.
        for n in range(50):
            (answer,) = await ask(address, send(n))
            assert answer.code == 0
        assert 0 < reads < 200
        writer.close()
        with suppress(ConnectionError):
            while await reader.read(1 << 20):
                pass


@pytest.mark.parametrize(
    ("settings", "queues"),
    [
        (None, 0),
        (TopicSettings(name="t", read_queues=4, write_queues=2), 4),
        (TopicSettings(name="%RETRY%g", read_queues=1, write_queues=1), 0),
        (TopicSettings(name="SCHEDULE_TOPIC_XXXX", read_queues=18, write_queues=18), 0),
        (TopicSettings(name="t", ordered=True), 0),
        (TopicSettings(name="t", filter_type=TopicFilterType.MULTI_TAG), 0),
        (TopicSettings(name="t", attributes={"cleanup.policy": "COMPACTION"}), 0),
    ],
)
def test_only_topics_about_which_nothing_more_is_to_say_are_in_the_lane(
    settings: TopicSettings | None, queues: int
) -> None:
    assert plain_queues(settings) == queues
