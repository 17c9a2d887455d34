"""Topics created, changed, deleted, listed and measured, on real tables and a real store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.handlers.topics import (
    PAGE,
    TopicHandlers,
    TopicStatsHandlers,
    page_of,
)
from rocketpipe.broker.presence.registration import Registrar
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.system_topics import system_topics
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected, StoreError
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.topic import DataVersion, TopicSettings
from rocketpipe.protocol import fastjson
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import Request, read_reply, to_command
from rocketpipe.protocol.requests.topics import (
    DeleteTopic,
    GetAllTopicConfig,
    GetBrokerSystemTopics,
    GetTopicConfig,
    GetTopicStats,
    QueueRange,
    TopicList,
    UpdateAndCreateTopic,
    UpdateAndCreateTopicList,
)
from rocketpipe.remoting.caller import Caller
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))


class Broker:
    """Topics, a store, and what answers about them."""

    def __init__(self, root: Path) -> None:
        self.clock = ManualClock()
        self.topics = TopicTable(default_topic_queues=8)
        self.topics.establish(system_topics("DefaultCluster", "broker-a"), 1)
        self.offsets = OffsetTable()
        self.forgotten: list[str] = []
        self.has_replicas = True
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            threads=False,
        )
        config = BrokerConfig(data=root, name_servers=())
        registrar = Registrar(config, "127.0.0.1:1", self.topics, Caller(), self.clock)
        self.router = Router(
            TopicHandlers(
                self.topics, self.offsets, registrar, self.clock, self.forget, admit=self.admit
            ),
            TopicStatsHandlers(self.topics, self.store, "broker-a"),
        )

    def admit(self) -> None:
        if not self.has_replicas:
            raise RequestRejected(1, "too few")

    async def forget(self, topic: str) -> None:
        self.forgotten.append(topic)

    def put(self, topic: str, queue_id: int) -> None:
        put = Put(
            topic=topic,
            queue_id=queue_id,
            body=b"body",
            properties=b"",
            flag=0,
            sys_flag=0,
            born_ms=1,
            born_host=HOST,
        )
        self.store.append([[put]])
        self.store.dispatch()

    async def ask(self, request: Request[Any]) -> Command:
        peer = PeerConnection(self.router.answer, limits=ConnectionLimits())
        return await self.router.answer(to_command(request, 1), peer)

    async def reply(self, request: Request[Any]) -> Any:
        return read_reply(request, await self.ask(request))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    made = Broker(tmp_path)
    yield made
    made.store.close()


def create(topic: str = "t", **changes: Any) -> UpdateAndCreateTopic:
    values: dict[str, Any] = {
        "default_topic": "TBW102",
        "read_queue_nums": 4,
        "write_queue_nums": 2,
        "perm": 6,
        **changes,
    }
    return UpdateAndCreateTopic(topic=topic, **values)


async def test_a_topic_is_created_as_asked_and_changed_later(broker: Broker) -> None:
    assert (await broker.ask(create(attributes="+message.type=FIFO", order=True))).code == 0
    assert broker.topics.get("t") == TopicSettings(
        name="t",
        read_queues=4,
        write_queues=2,
        ordered=True,
        attributes={"message.type": "FIFO"},
    )
    assert (await broker.ask(create(perm=4))).code == 0
    changed = broker.topics.get("t")
    assert changed is not None
    assert changed.perm == 4
    assert changed.attributes == {"message.type": "FIFO"}
    before = broker.topics.version
    assert (await broker.ask(create(perm=4))).code == 0
    assert broker.topics.version == before


@pytest.mark.parametrize(
    ("request_", "code", "remark"),
    [
        (create("../t"), 29, "'.' at 0"),
        (create(""), 29, "is blank"),
        (create("TBW102"), 29, "The topic[TBW102] is conflict with system topic."),
        (create("DefaultCluster"), 29, "The topic[DefaultCluster] is conflict"),
        (create("rmq_sys_mine"), 29, "The topic[rmq_sys_mine] is conflict"),
        (create(read_queue_nums=-1), 29, "readQueueNums is from 0 to 65536, not -1"),
        (create(write_queue_nums=65537), 29, "writeQueueNums is from 0 to 65536, not 65537"),
        (create(perm=16), 29, "perm is from 0 to 15, not 16"),
        (create(attributes="+message.type=MIXED"), 29, "MIXED message type is not supported."),
        (create(attributes="+message.type=ODD"), 1, "is one of DELAY, FIFO"),
        (create(attributes="-message.type"), 1, "is neither"),
        (DeleteTopic(topic=" "), 29, "The specified topic is blank."),
        (DeleteTopic(topic="SELF_TEST_TOPIC"), 29, "The topic[SELF_TEST_TOPIC] is conflict"),
        (GetTopicConfig(topic="none"), 17, "No topic in this broker. topic: none"),
        (GetTopicStats(topic="none"), 17, "topic[none] not exist"),
    ],
)
async def test_what_cannot_be_is_refused_with_the_reason(
    broker: Broker, request_: Request[Any], code: int, remark: str
) -> None:
    before = broker.topics.version
    answer = await broker.ask(request_)
    assert answer.code == code
    assert remark in str(answer.remark)
    assert broker.topics.version == before


async def test_a_change_that_could_not_be_settled_is_refused_before_it_is_made(
    broker: Broker,
) -> None:
    await broker.ask(create("t"))
    before, broker.has_replicas = broker.topics.to_file(), False
    for request in (create("u"), create("t", perm=4), DeleteTopic(topic="t")):
        assert (await broker.ask(request)).remark == "too few"
    assert broker.topics.to_file() == before


async def test_of_a_list_all_are_made_or_none(broker: Broker) -> None:
    first = TopicSettings(name="a", attributes={"+message.type": "DELAY"})
    wanted = TopicList(topics=(first, TopicSettings(name="../b")))
    assert (await broker.ask(UpdateAndCreateTopicList(wanted=wanted))).code == 29
    assert broker.topics.get("a") is None
    wanted = TopicList(topics=(first, TopicSettings(name="b", read_queues=1)))
    assert (await broker.ask(UpdateAndCreateTopicList(wanted=wanted))).code == 0
    made = broker.topics.get("a")
    assert made is not None
    assert made.attributes == {"message.type": "DELAY"}
    assert broker.topics.get("b") == TopicSettings(name="b", read_queues=1)
    # One that is there already does not keep the others from being made.
    wanted = TopicList(topics=(TopicSettings(name="b", read_queues=1), TopicSettings(name="c")))
    assert (await broker.ask(UpdateAndCreateTopicList(wanted=wanted))).code == 0
    assert broker.topics.get("c") is not None
    gone = TopicSettings(name="a", attributes={"-message.type": ""})
    request = UpdateAndCreateTopicList(wanted=TopicList(topics=(gone,)))
    assert (await broker.ask(request)).code == 0
    changed = broker.topics.get("a")
    assert changed is not None
    assert changed.attributes == {}


async def test_a_topic_takes_offsets_and_retries_of_popped_messages_along(broker: Broker) -> None:
    await broker.ask(create("t"))
    for name in ("%RETRY%g_t", "%RETRY%g+t", "%RETRY%g"):
        broker.topics.ensure(name, queues=1, now_ms=1)
    for topic in ("t", "u", "%RETRY%g+t"):
        broker.offsets.commit("g", topic, 0, QueueOffset(7))
    assert (await broker.ask(DeleteTopic(topic="t"))).code == 0
    assert broker.forgotten == ["t", "%RETRY%g+t", "%RETRY%g_t"]
    assert [topic for _, topic, *_ in broker.offsets.all()] == ["u"]
    assert broker.topics.get("t") is None
    assert broker.topics.get("%RETRY%g+t") is None
    assert broker.topics.get("%RETRY%g") is not None
    assert (await broker.ask(DeleteTopic(topic="t"))).code == 0


async def test_a_deletion_is_finished_though_nobody_waits_for_it_any_more(broker: Broker) -> None:
    settled, on_disk = asyncio.Event(), asyncio.Event()

    async def settle() -> None:
        settled.set()
        await on_disk.wait()

    registrar = Registrar(
        BrokerConfig(data=Path(), name_servers=()),
        "127.0.0.1:1",
        broker.topics,
        Caller(),
        broker.clock,
    )
    handlers = TopicHandlers(
        broker.topics,
        broker.offsets,
        registrar,
        broker.clock,
        broker.forget,
        settled=settle,
        log_ends=lambda: (0, 1000),
    )
    await broker.ask(create("t"))
    broker.router = Router(handlers)
    broker.offsets.commit("g", "t", 0, QueueOffset(7))
    asked = asyncio.ensure_future(broker.ask(DeleteTopic(topic="t")))
    await settled.wait()
    # It is said on disk first, and all of it is there until then.
    assert broker.topics.to_file().deleted == {"t": -1}
    assert broker.topics.get("t") is not None
    assert broker.forgotten == []
    asked.cancel()
    await asyncio.wait([asked])
    on_disk.set()
    assert (await broker.ask(create("u"))).code == 0
    await handlers.finish()
    assert broker.topics.get("t") is None
    assert broker.forgotten == ["t"]
    assert list(broker.offsets.all()) == []
    assert broker.topics.to_file().deleted == {"t": 1000}


async def test_a_topic_is_not_made_again_before_the_last_one_is_gone(broker: Broker) -> None:
    await broker.ask(create("t"))
    with broker.topics.kept_unmade("t"):
        broker.topics.delete("t", 1, 100)
        answer = await broker.ask(create("t"))
        assert answer.code == 14
        assert "is being deleted" in str(answer.remark)
    assert (await broker.ask(create("t"))).code == 0


async def test_queues_that_cannot_be_removed_are_told_of(broker: Broker) -> None:
    def refuse(topic: str) -> None:
        raise StoreError("disk full")

    handlers = TopicHandlers(
        broker.topics,
        broker.offsets,
        Registrar(
            BrokerConfig(data=Path(), name_servers=()),
            "127.0.0.1:1",
            broker.topics,
            Caller(),
            broker.clock,
        ),
        broker.clock,
        refuse,
    )
    broker.router = Router(handlers)
    answer = await broker.ask(DeleteTopic(topic="t"))
    assert answer.code == 1
    assert "delete it again: disk full" in str(answer.remark)


async def test_all_topics_come_at_once_or_page_by_page(broker: Broker) -> None:
    for number in range(5):
        await broker.ask(create(f"t{number}"))
    whole = await broker.reply(GetAllTopicConfig())
    assert whole.table.topics == broker.topics.all()
    assert whole.total_topic_num == len(broker.topics.all())
    assert whole.table.version == broker.topics.version
    version = fastjson.write(whole.table.version, strict=True).decode()
    seen: dict[str, TopicSettings] = {}
    while len(seen) < whole.total_topic_num:
        request = GetAllTopicConfig(topic_seq=len(seen), data_version=version, max_topic_num=4)
        page = (await broker.reply(request)).table.topics
        assert 1 <= len(page) <= 4
        assert not page.keys() & seen.keys()
        seen |= page
    assert seen == broker.topics.all()
    await broker.ask(create("another"))
    again = await broker.reply(request)
    assert list(again.table.topics) == sorted(broker.topics.all())[:4]


def test_a_page_is_never_longer_than_rocketmqs() -> None:
    table = {f"{number:05}": number for number in range(PAGE + 5)}
    version = DataVersion(counter=3)
    text = fastjson.write(version, strict=True).decode()
    assert len(page_of(table, version, None, None, None)) == PAGE + 5
    assert len(page_of(table, version, 0, text, None)) == PAGE
    assert list(page_of(table, version, PAGE, text, 1 << 30)) == sorted(table)[PAGE:]
    assert page_of(table, version, PAGE + 5, text, 7) == {}
    assert page_of(table, version, -3, text, 1) == {"00000": 0}
    assert page_of(table, version, 0, text, -1) == {}
    for odd in ("{", "[]", "\ud800"):
        assert list(page_of(table, version, 9, odd, 1)) == ["00000"]


async def test_one_topic_is_told_with_its_attributes(broker: Broker) -> None:
    await broker.ask(create(attributes="+message.type=DELAY"))
    details = (await broker.reply(GetTopicConfig(topic="t"))).details
    assert details.attributes == {"message.type": "DELAY"}
    assert details.mapping is None
    found = broker.topics.get("t")
    assert found is not None
    assert msgspec.structs.asdict(found).items() <= msgspec.structs.asdict(details).items()


async def test_the_brokers_own_topics_are_listed(broker: Broker) -> None:
    await broker.ask(create("t"))
    names = (await broker.reply(GetBrokerSystemTopics())).names.topics
    assert {"TBW102", "DefaultCluster", "broker-a", "SCHEDULE_TOPIC_XXXX"} <= names
    assert "t" not in names


async def test_every_queue_is_measured_also_those_without_a_message(broker: Broker) -> None:
    await broker.ask(create("t"))
    empty = (await broker.reply(GetTopicStats(topic="t"))).stats
    queues = [
        MessageQueue(topic="t", broker_name="broker-a", queue_id=queue_id) for queue_id in range(4)
    ]
    assert empty.queues == dict.fromkeys(queues, QueueRange())
    broker.put("t", 1)
    await broker.clock.advance(5)
    broker.put("t", 1)
    full = (await broker.reply(GetTopicStats(topic="t"))).stats.queues
    assert full[queues[1]] == QueueRange(max_offset=2, last_update_timestamp=broker.clock.now_ms())
    assert full[queues[0]] == QueueRange()
