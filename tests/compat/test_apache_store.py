"""Our store under Apache's own broker: read by it, appended to by it, and opened by us again.

It registers at our NameServer and is asked by our clients, so those are judged too.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.compat.support.apache import Apache

from rocketpipe.broker.tables.tables import Tables
from rocketpipe.client.consumer.pull import PullConsumer
from rocketpipe.client.producer.producer import Producer
from rocketpipe.clock import SystemClock
from rocketpipe.model import properties
from rocketpipe.model.flags import COMPRESSED, Compression
from rocketpipe.model.host import Host
from rocketpipe.model.names import AUTO_CREATE_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC
from rocketpipe.model.offsets import LogOffset, QueueOffset
from rocketpipe.namesrv.config import NamesrvConfig
from rocketpipe.namesrv.server import name_server
from rocketpipe.protocol.requests.lookups import QueryMessage, ViewMessageById
from rocketpipe.protocol.requests.offsets import GetMaxOffset
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.remoting.caller import Caller
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.store.upkeep.check import check_store
from rocketpipe.store.upkeep.findings import Report

pytestmark = pytest.mark.compat

READ_TIMEOUT_S = 60

GROUP = "compat-group"
#: More than 127 bytes: its records are of the second version.
LONG_TOPIC = "%RETRY%" + "g" * 124
#: Each with its number of queues.
TOPICS = {"orders": 4, "single": 1, LONG_TOPIC: 1}
PER_QUEUE = 60
HOST = Host.parse("127.0.0.1:10911").pack()
HOST_V6 = Host.parse("[::1]:10911").pack()
CLOCK = SystemClock()
EVER = 1 << 61

Queue = tuple[str, int]
Records = dict[Queue, list[bytes]]
End = Callable[[MessageStore], None]


def settings(store: StoreConfig) -> dict[str, object]:
    """The broker.conf under which Apache takes our files for its own."""
    return {
        "storePathRootDir": store.root,
        "storePathCommitLog": StoreLayout(store.root).commit_log,
        "mappedFileSizeCommitLog": store.segment_bytes,
        "mappedFileSizeConsumeQueue": store.queue_file_bytes,
        "mappedFileSizeTimerLog": store.timer_log_bytes,
        "maxHashSlotNum": store.index_slots,
        "maxIndexNum": store.index_entries,
        "enabledAppendPropCRC": "true",
        "forceVerifyPropCRC": "true",
    }


# The store


@pytest.fixture
def config(tmp_path: Path) -> StoreConfig:
    """Files so small that there are several of each kind."""
    return StoreConfig(
        root=tmp_path / "store",
        segment_bytes=64 << 10,
        queue_file_bytes=800,
        index_slots=50,
        index_entries=200,
        timer_log_bytes=1 << 20,
    )


def open_store(config: StoreConfig) -> MessageStore:
    return MessageStore.open(config, disk=Disk(), clock=CLOCK, store_host=HOST)


def put(topic: str, queue_id: int, body: bytes, *, key: str, **changes: Any) -> Put:
    named = {
        properties.KEYS: f"{key} {topic[:6]}-{queue_id}",
        properties.TAGS: f"tag-{len(body) % 3}",
        "größe": str(len(body)),
    }
    values: dict[str, Any] = {
        "properties": properties.encode_bytes(named),
        "flag": len(body),
        "sys_flag": 0,
        "born_ms": CLOCK.now_ms(),
        "born_host": HOST,
    }
    return Put(topic=topic, queue_id=queue_id, body=body, **{**values, **changes})


def groups() -> Iterator[list[Put]]:
    """What we write: groups of one, and one of several; two wait for longer than a test takes."""
    for topic, queues in TOPICS.items():
        for number in range(PER_QUEUE * queues):
            body = f"{topic} {number} ".encode() * (1 + number % 50)
            yield [put(topic, number % queues, body, key=f"key-{number}")]
    yield [put("orders", 1, b"one of five: %d" % number, key="batch") for number in range(5)]
    yield [put("orders", 2, b"from afar", key="afar", born_host=HOST_V6)]
    packed = zlib.compress(b"a long story " * 4000)
    yield [put("single", 0, packed, key="packed", sys_flag=COMPRESSED | Compression.ZLIB)]
    yield [put("orders", 3, b"", key="empty", reconsume_times=2)]
    later = {
        properties.REAL_TOPIC: "orders",
        properties.REAL_QUEUE_ID: "0",
    }
    delayed = properties.encode_bytes({**later, properties.DELAY: "18"})
    yield [put(SCHEDULE_TOPIC, 17, b"in two hours", key="delayed", properties=delayed)]
    due_ms = CLOCK.now_ms() + 86_400_000
    timed = properties.encode_bytes({**later, properties.TIMER_OUT_MS: str(due_ms)})
    yield [put(TIMER_TOPIC, 0, b"tomorrow", key="timed", properties=timed)]


def write_store(config: StoreConfig, groups: Sequence[list[Put]], ends: Sequence[End]) -> Records:
    """Fill a store and its table of topics as our broker does, in as many runs as have an end."""
    share = -(-len(groups) // len(ends))
    for run, end in enumerate(ends):
        store = open_store(config)
        try:
            for group in groups[run * share : (run + 1) * share]:
                store.append([group])
                store.dispatch()
            written = read_store(store)
            end(store)
        finally:
            store.abandon()
    tables = saved_tables(config)
    tables.adopt(queue for queue in written if queue[0] in TOPICS)
    tables.save()
    return written


def saved_tables(config: StoreConfig) -> Tables:
    tables = Tables(Disk(), StoreLayout(config.root).config, CLOCK, default_topic_queues=8)
    tables.load()
    return tables


def killed_after_a_sync(store: MessageStore) -> None:
    """The log is durable and its checkpoint says so; queues and index are behind it."""
    store.flush()
    store.abandon()


def read_store(store: MessageStore) -> Records:
    """Every record of every queue, in order and without a gap."""
    found: Records = {}
    for topic, queue_id in store.queues():
        records = found[topic, queue_id] = []
        at = QueueOffset(0)
        while at < store.max_offset(topic, queue_id):
            result = store.read(topic, queue_id, at, max_count=32)
            for view in view_records(result.records):
                assert view.queue_offset == len(records), (topic, queue_id)
                assert view.raw == store.record_at(view.log_offset)
                records.append(view.raw)
            assert result.next_offset == len(records), (topic, queue_id, result.status)
            at = result.next_offset
    return found


def check(config: StoreConfig) -> Report:
    return check_store(Disk(), config.root, index_slots=config.index_slots)


# What Apache's broker is asked


def count(queues: Mapping[Queue, Sequence[object]]) -> int:
    return sum(map(len, queues.values()))


async def pull(consumer: PullConsumer, wanted: int) -> Records:
    """Read so many messages, each queue in the order in which they come."""
    found: Records = defaultdict(list)
    async with asyncio.timeout(READ_TIMEOUT_S):
        while count(found) < wanted:
            for view in await consumer.poll():
                found[view.topic, view.queue_id].append(view.raw)
    return dict(found)


async def send_more(name_servers: str, address: str) -> dict[Queue, list[tuple[int, bytes]]]:
    """Send to topics it has from us, to a new one, and a batch; tells where each of them went."""
    sent: dict[Queue, list[tuple[int, bytes]]] = defaultdict(list)
    async with Producer(name_servers, group="compat-producer") as producer:
        for number in range(200):
            topic = ("orders", "single", "fresh")[number % 3]
            body = b"to Apache's broker: %d " % number * (1 + number % 70)
            result = await producer.send(
                topic, body, tags="new", keys=[f"new-{number}"], properties={"größe": "neu"}
            )
            assert result.durable
            queue = result.queue
            sent[queue.topic, queue.queue_id].append((result.queue_offset, body))
    bodies = [b"batch of three: %d" % number for number in range(3)]
    text = properties.encode_bytes({properties.KEYS: "new-batch"})
    async with Caller() as caller:
        reply = await caller.call(
            address,
            SendMessage(
                producer_group="compat-producer",
                topic="orders",
                default_topic=AUTO_CREATE_TOPIC,
                default_topic_queue_nums=4,
                queue_id=2,
                sys_flag=0,
                born_timestamp=CLOCK.now_ms(),
                flag=0,
                batch=True,
                body=encode_batch(Entry(0, body, text) for body in bodies),
            ),
        )
    sent["orders", 2] += ((reply.queue_offset + at, body) for at, body in enumerate(bodies))
    return sent


async def check_lookups(address: str, written: Records) -> None:
    """Messages are found by their keys and by their place."""
    views = [RecordView(raw) for topic in TOPICS for raw in written_of(written, topic)]
    async with Caller() as caller:
        # None is of the last message of an index file: after a kill Apache indexes that one twice.
        for topic, key in (
            ("orders", "key-7"),
            ("orders", "batch"),
            ("orders", "orders-3"),
            ("single", "packed"),
            (LONG_TOPIC, "key-59"),
        ):
            reply = await caller.call(
                address,
                QueryMessage(
                    topic=topic, key=key, max_num=64, begin_timestamp=0, end_timestamp=EVER
                ),
            )
            having = [
                view.raw
                for view in views
                if view.topic == topic and key in view.properties[properties.KEYS].split()
            ]
            found = [view.raw for view in view_records(reply.messages)]
            assert sorted(found) == sorted(having), (topic, key)
        for view in views[::17]:
            reply = await caller.call(address, ViewMessageById(offset=LogOffset(view.log_offset)))
            assert reply.message == view.raw


def written_of(records: Records, topic: str) -> list[bytes]:
    return [raw for (name, _), queue in records.items() if name == topic for raw in queue]


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([MessageStore.close], id="stopped"),
        pytest.param([MessageStore.abandon], id="killed"),
        pytest.param([MessageStore.close, killed_after_a_sync], id="stopped, then killed"),
    ],
)
async def test_apaches_broker_reads_our_store_appends_to_it_and_we_read_both(
    apache: Apache, config: StoreConfig, ends: list[End]
) -> None:
    written = write_store(config, list(groups()), ends)
    served = {queue: raws for queue, raws in written.items() if queue[0] in TOPICS}

    async with (
        name_server(NamesrvConfig(port=0)) as name_servers,
        apache.broker(config.root.parent, name_servers, **settings(config)) as address,
    ):
        async with PullConsumer(name_servers, group=GROUP) as consumer:
            for topic in TOPICS:
                await consumer.subscribe(topic)
            assert await pull(consumer, count(served)) == served
            await consumer.commit()
        await check_lookups(address, written)

        sent = await send_more(name_servers, address)
        async with PullConsumer(name_servers, group=GROUP, auto_commit=False) as consumer:
            for topic in ("orders", "single", "fresh"):
                await consumer.subscribe(topic)
            added = await pull(consumer, count(sent))
        assert {
            queue: [(view.queue_offset, view.body) for view in map(RecordView, raws)]
            for queue, raws in added.items()
        } == sent

    report = check(config)
    assert report.ok, report.lines()
    assert report.clean_stop
    assert report.unsealed == 0
    check_ours(config, written, added)
    report = check(config)
    assert report.ok, report.lines()


def check_ours(config: StoreConfig, written: Records, added: Records) -> None:
    """Our store has the messages of both, and our tables what that broker saved."""
    store = open_store(config)
    try:
        found = read_store(store)
        for queue in written.keys() | added.keys():
            assert found[queue] == written.get(queue, []) + added.get(queue, []), queue
        for raw in (raw for raws in added.values() for raw in raws[::7]):
            view = RecordView(raw)
            (key, *_) = properties.split_keys(view.properties[properties.KEYS])
            assert view.log_offset in list(store.find_by_key(view.topic, key, 0, EVER)), key
        assert len(store.derived.timer) == 1
        store.close()
    finally:
        store.abandon()
    tables = saved_tables(config)
    for topic, queues in {**TOPICS, "fresh": 4}.items():
        kept = tables.topics.get(topic)
        assert kept is not None
        assert (kept.read_queues, kept.write_queues) == (queues, queues)
    for (topic, queue_id), raws in written.items():
        if topic in TOPICS:
            assert tables.offsets.committed(GROUP, topic, queue_id) == len(raws)


async def test_apaches_broker_cuts_a_record_of_ours_whose_seal_does_not_fit(
    apache: Apache, config: StoreConfig
) -> None:
    puts = [[put("orders", 0, b"body %d" % number, key="key")] for number in range(5)]
    written = write_store(config, puts, [MessageStore.abandon])
    *whole, last = written["orders", 0]
    # Only the seal covers properties; the body, which has a checksum of its own, is not touched.
    at = RecordView(last).log_offset + last.index(b"tag-")
    with (StoreLayout(config.root).commit_log / f"{0:020d}").open("r+b") as segment:
        segment.seek(at)
        segment.write(b"T")
    async with (
        name_server(NamesrvConfig(port=0)) as name_servers,
        apache.broker(config.root.parent, name_servers, **settings(config)) as address,
        Caller() as caller,
    ):
        reply = await caller.call(address, GetMaxOffset(topic="orders", queue_id=0))
        assert reply.offset == len(whole)
        async with PullConsumer(name_servers, group=GROUP) as consumer:
            await consumer.subscribe("orders")
            assert await pull(consumer, len(whole)) == {("orders", 0): whole}
