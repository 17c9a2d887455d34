"""Pulls against a real store: every answer a queue can give, on a clock turned by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rocketpipe.background import running
from rocketpipe.broker.config.config import BrokerConfig
from rocketpipe.broker.delivery.cold_reads import WINDOW_MS, ColdReads
from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.delivery.long_poll import RECHECK_MS, TICK_MS, WaitingPulls
from rocketpipe.broker.delivery.pull_plan import PullPlanner, PullRules
from rocketpipe.broker.delivery.repairing import keep_repaired
from rocketpipe.broker.handlers.pulling import PullHandlers
from rocketpipe.broker.intake.arrivals import Arrivals
from rocketpipe.broker.tables.clients import ClientTable
from rocketpipe.broker.tables.consumer_group import Client, Consuming
from rocketpipe.broker.tables.groups import GroupTable
from rocketpipe.broker.tables.offsets import OffsetTable
from rocketpipe.broker.tables.topics import TopicTable
from rocketpipe.errors import RequestRejected
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import SQL92, Subscription
from rocketpipe.model.topic import TopicSettings
from rocketpipe.protocol.command import Command
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.record.codec import view_records
from rocketpipe.remoting.connection import ConnectionLimits, PeerConnection
from rocketpipe.remoting.router import Router
from rocketpipe.store.config import StoreConfig
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.log.puts import Put
from rocketpipe.store.message_store import MessageStore
from rocketpipe.testing.clock import ManualClock

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
OFFSETS = ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")


class Broker:
    """The parts that a pull meets, and a topic ``t`` of two queues."""

    def __init__(self, root: Path, **rules: Any) -> None:
        self.clock = ManualClock()
        self.waiting = WaitingPulls(self.clock, limit=2)
        arrivals = Arrivals()
        arrivals.listen(
            lambda topic, queue_id, offset, code, _, raw: self.waiting.notify(
                topic, queue_id, offset + 1, code, raw
            )
        )
        self.store = MessageStore.open(
            StoreConfig.embedded(root),
            disk=Disk(),
            clock=self.clock,
            store_host=HOST,
            on_arrival=arrivals,
            threads=False,
        )
        self.topics = TopicTable(8)
        self.topics.update(TopicSettings(name="t", read_queues=2, write_queues=2), 1)
        self.groups = GroupTable()
        self.clients = ClientTable()
        self.offsets = OffsetTable()
        self.use(**rules)

    def use(self, **rules: Any) -> None:
        planner = PullPlanner(self.topics, self.groups, self.clients, Filters(), PullRules(**rules))
        self.cold = ColdReads(
            BrokerConfig(data=self.store.config.root), self.store, self.clock, hot_bytes=1000
        )
        self.handlers = PullHandlers(
            self.store, planner, self.offsets, self.waiting, self.clock, self.cold
        )
        self.router = Router(self.handlers)

    def put(self, *tags: str, body: bytes = b"body", **properties: object) -> None:
        extra = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        puts = [
            Put(
                topic="t",
                queue_id=0,
                body=body,
                properties=f"TAGS\x01{tag}\x02{extra}".encode(),
                flag=0,
                sys_flag=0,
                born_ms=1,
                born_host=HOST,
            )
            for tag in tags
        ]
        self.store.append([[put] for put in puts])
        self.store.dispatch()

    async def pull(self, offset: int = 0, **changes: Any) -> Command:
        peer = PeerConnection(self.router.answer, limits=ConnectionLimits())
        return await self.router.answer(to_command(pull(offset, **changes), 1), peer)

    async def start(self, offset: int = 0, **changes: Any) -> asyncio.Task[Command]:
        """Begin a pull that waits."""
        before = len(self.waiting)
        task = asyncio.create_task(self.pull(offset, **{"wait_ms": 15_000, **changes}))
        for _ in range(5):
            await asyncio.sleep(0)  # the pull waits, and so does the loop that keeps its time
        assert len(self.waiting) == before + 1
        return task


def pull(offset: int = 0, *, wait_ms: int = 0, sys_flag: int | None = None, **changes: Any) -> Any:
    flag = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if wait_ms else 0)
    made = PullMessage(
        consumer_group="g",
        topic="t",
        queue_id=0,
        queue_offset=QueueOffset(offset),
        max_msg_nums=32,
        sys_flag=int(flag) if sys_flag is None else sys_flag,
        commit_offset=QueueOffset(0),
        suspend_timeout_millis=wait_ms,
        subscription="*",
        sub_version=0,
    )
    return replace(made, **changes)


def tags(answer: Command) -> list[str | None]:
    return [message.tags for message in view_records(answer.body)]


def told(answer: Command) -> tuple[int, str | None, tuple[int, ...]]:
    """Code, remark and the four numbers that peers need in any case."""
    return answer.code, answer.remark, tuple(int(answer.fields[name]) for name in OFFSETS)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    made = Broker(tmp_path)
    try:
        async with (
            running(made.waiting.keep_time(made.store.max_offset), "time"),
            running(made.waiting.keep_sifting(), "expressions"),
        ):
            yield made
    finally:
        made.store.close()


# What a queue answers


async def test_every_answer_tells_where_to_go_on(broker: Broker) -> None:
    assert told(await broker.pull(0)) == (19, "NO_MATCHED_LOGIC_QUEUE", (0, 0, 0, 0))
    assert told(await broker.pull(7)) == (21, "NO_MATCHED_LOGIC_QUEUE", (0, 0, 0, 0))
    broker.put("A", "B")
    found = await broker.pull(0)
    assert told(found) == (0, "FOUND", (0, 2, 0, 2))
    assert tags(found) == ["A", "B"]
    assert told(await broker.pull(2)) == (19, "OFFSET_OVERFLOW_ONE", (0, 2, 0, 2))
    assert told(await broker.pull(9)) == (21, "OFFSET_OVERFLOW_BADLY", (0, 2, 0, 2))
    assert told(await broker.pull(-1)) == (21, "OFFSET_TOO_SMALL", (0, 0, 0, 2))
    other = await broker.pull(0, subscription="C")
    assert told(other) == (20, "NO_MATCHED_MESSAGE", (0, 2, 0, 2))


async def test_answers_have_no_flags_but_those_that_are_set(broker: Broker) -> None:
    assert set((await broker.pull(0)).fields) == set(OFFSETS)
    broker.topics.update(TopicSettings(name="t", read_queues=2, sys_flag=3), 2)
    assert (await broker.pull(0)).fields["topicSysFlag"] == "3"


async def test_a_refusal_says_by_whom(broker: Broker) -> None:
    broker.topics.update(TopicSettings(name="t", read_queues=2, perm=2), 2)
    answer = await broker.pull(0)
    assert (answer.code, answer.fields) == (16, {"forbiddenType": "3"})
    assert answer.remark == "the topic[t] pulling message is forbidden"
    assert (await broker.pull(0, topic="nowhere")).code == 17


async def test_the_lite_code_can_be_switched_off(broker: Broker) -> None:
    lite = int(PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL)
    assert (await broker.pull(0, sys_flag=lite)).code == 19
    broker.use(lite_pull=False)
    answer = await broker.pull(0, sys_flag=lite)
    assert (answer.code, answer.fields["forbiddenType"]) == (16, "1")
    assert (await broker.pull(0)).code == 19


async def test_an_answer_has_at_most_32_messages_and_256_kib(broker: Broker) -> None:
    broker.put(*["A"] * 40)
    assert len(tags(await broker.pull(0, max_msg_nums=100))) == 32
    assert len(tags(await broker.pull(0, max_msg_nums=5))) == 5
    assert len(tags(await broker.pull(0, max_msg_nums=0))) == 1
    assert len(tags(await broker.pull(0, max_msg_bytes=300))) == 2
    assert len(tags(await broker.pull(0, max_msg_bytes=1))) == 1
    broker.put(*["L"] * 4, body=bytes(100_000))
    assert len(tags(await broker.pull(40))) == 2


async def test_a_bulk_pull_gets_more(broker: Broker) -> None:
    broker.put(*["A"] * 5000)
    answer = await broker.pull(0, max_msg_nums=10_000, bulk=True)
    assert len(tags(answer)) == 4096
    broker.put(*["L"] * 20, body=bytes(100_000))
    assert len(tags(await broker.pull(5000, max_msg_nums=10_000, bulk=True))) == 10


async def test_the_offset_that_comes_along_is_committed(broker: Broker) -> None:
    flag = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
    await broker.pull(0, sys_flag=flag, commit_offset=QueueOffset(3))
    assert broker.offsets.committed("g", "t", 0) == 3
    await broker.pull(0, sys_flag=flag, commit_offset=QueueOffset(-1))
    await broker.pull(0, commit_offset=QueueOffset(9))
    await broker.pull(0, sys_flag=flag, commit_offset=QueueOffset(9), topic="nowhere")
    assert list(broker.offsets.all()) == [("g", "t", 0, 3)]


async def test_a_pull_by_the_groups_own_subscription(broker: Broker) -> None:
    broker.put("A", "B")
    assert (await broker.pull(0, sys_flag=0)).code == 24
    broker.clients.join(
        "g",
        Client(connection="c", client_id="c"),
        Consuming(subscriptions=(Subscription(topic="t", expression="B"),)),
        1,
    )
    assert tags(await broker.pull(0, sys_flag=0)) == ["B"]
    assert (await broker.pull(0, sys_flag=0, sub_version=1)).code == 25


# Expressions over properties


def sql(expression: str) -> dict[str, str]:
    return {"expression_type": SQL92, "subscription": expression}


async def test_sql_gives_the_messages_that_match_and_passes_over_the_rest(broker: Broker) -> None:
    for number in range(200):
        broker.put(f"n{number}", a=number)
    answer = await broker.pull(0, **sql("a BETWEEN 90 AND 92 OR a = 150"))
    assert tags(answer) == ["n90", "n91", "n92", "n150"]
    assert told(answer) == (0, "FOUND", (0, 200, 0, 200))
    few = await broker.pull(0, max_msg_nums=2, **sql("a >= 90"))
    assert (tags(few), few.fields["nextBeginOffset"]) == (["n90", "n91"], "92")
    none = await broker.pull(5, **sql("a > 1000"))
    assert told(none) == (20, "NO_MATCHED_MESSAGE", (0, 200, 0, 200))
    assert told(await broker.pull(200, **sql("a > 1"))) == (
        19,
        "OFFSET_OVERFLOW_ONE",
        (0, 200, 0, 200),
    )


async def test_one_pull_by_sql_looks_at_so_many_messages_and_no_more(broker: Broker) -> None:
    broker.put(*["A"] * 1000, a=1)
    answer = await broker.pull(10, **sql("a = '2'"))
    assert told(answer) == (20, "NO_MATCHED_MESSAGE", (0, 810, 0, 1000))


async def test_messages_that_match_by_sql_fill_an_answer_up_to_its_bytes(broker: Broker) -> None:
    broker.put(*["A"] * 6, body=bytes(100_000), a=1)
    answer = await broker.pull(0, **sql("a = '1'"))
    assert (len(tags(answer)), answer.fields["nextBeginOffset"]) == (2, "2")


# Waiting


async def test_a_waiting_pull_is_answered_when_a_message_comes_that_it_wants(
    broker: Broker,
) -> None:
    waits = await broker.start(0, subscription="B")
    broker.put("A")
    await asyncio.sleep(0)
    assert not waits.done()
    broker.put("B")
    answer = await waits
    assert (tags(answer), answer.fields["nextBeginOffset"]) == (["B"], "2")


async def test_a_waiting_pull_by_sql_is_woken_by_what_matches(broker: Broker) -> None:
    waits = await broker.start(0, **sql("a > 5"))
    broker.put("A", a=1)
    await asyncio.sleep(0)
    assert not waits.done()
    broker.put("B", a=9)
    assert tags(await waits) == ["B"]


async def test_a_wait_ends_with_its_time_and_is_answered_not_found(broker: Broker) -> None:
    broker.put("A")
    waits = await broker.start(1, wait_ms=15_000)
    await broker.clock.advance(14_900)
    assert not waits.done()
    await broker.clock.advance(3 * TICK_MS)
    assert told(await waits) == (19, "OFFSET_OVERFLOW_ONE", (0, 1, 0, 1))


async def test_what_is_not_wanted_is_passed_over_at_the_next_look(broker: Broker) -> None:
    waits = await broker.start(0, subscription="B")
    broker.put("A")
    await broker.clock.advance(RECHECK_MS + 2 * TICK_MS)
    assert told(await waits) == (20, "NO_MATCHED_MESSAGE", (0, 1, 0, 1))


async def test_without_long_polling_a_pull_waits_a_second(broker: Broker) -> None:
    broker.use(long_polling=False)
    waits = await broker.start(0, wait_ms=15_000)
    await broker.clock.advance(1000 + 2 * TICK_MS)
    assert (await waits).code == 19


async def test_a_pull_that_does_not_ask_to_wait_is_answered_at_once(broker: Broker) -> None:
    answer = await broker.pull(0, sys_flag=int(PullFlag.SUBSCRIPTION), wait_ms=15_000)
    assert answer.code == 19
    assert len(broker.waiting) == 0


async def test_only_a_pull_that_found_nothing_waits(broker: Broker) -> None:
    broker.put("A")
    for offset in (7, -1):
        assert (await broker.pull(offset, wait_ms=15_000)).code == 21
    assert (await broker.pull(0, wait_ms=15_000, subscription="B")).code == 20


async def test_an_offset_is_committed_before_the_wait_and_not_again_after(
    broker: Broker,
) -> None:
    flag = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET | PullFlag.SUSPEND)
    waits = await broker.start(0, sys_flag=flag, commit_offset=QueueOffset(1))
    assert broker.offsets.committed("g", "t", 0) == 1
    broker.offsets.commit("g", "t", 0, QueueOffset(5))
    broker.put("A")
    await waits
    assert broker.offsets.committed("g", "t", 0) == 5


async def test_what_changed_during_a_wait_counts(broker: Broker) -> None:
    waits = await broker.start(0)
    broker.topics.delete("t", 2)
    await broker.clock.advance(15_000 + 2 * TICK_MS)
    assert (await waits).code == 17


async def test_a_pull_whose_peer_is_gone_waits_no_more(broker: Broker) -> None:
    waits = await broker.start(0)
    waits.cancel()  # as connections do to what they answer, when they are lost
    await asyncio.wait([waits])
    assert len(broker.waiting) == 0


async def test_one_wait_too_many_is_refused_with_what_to_do(broker: Broker) -> None:
    waits = [await broker.start(0), await broker.start(0, queue_id=1)]
    answer = await broker.pull(0, wait_ms=15_000)
    assert answer.code == 2
    assert "pullThreadPoolQueueCapacity" in str(answer.remark)
    broker.put("A")
    assert (await waits[0]).code == 0
    waits[1].cancel()
    await asyncio.wait(waits)


# Damage


def damage_second(broker: Broker) -> None:
    """Change the body of the second of three messages on the disk."""
    broker.put("A", "B", "C", a=1)
    broker.store.flush()
    segment = broker.store.commit_log.path_of(0)
    data = bytearray(segment.read_bytes()[:4096])
    at = data.index(b"body", data.index(b"body") + 1)
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(b"BODY")


async def test_a_damaged_record_is_never_given_out(broker: Broker) -> None:
    damage_second(broker)
    broker.store.damaged.skip = False
    assert tags(await broker.pull(0)) == ["A"]
    for changes in ({}, sql("a = '1'")):
        answer = await broker.pull(1, **changes)
        assert answer.code == 1
        assert "record at" in str(answer.remark)


async def test_a_reader_is_led_past_a_damaged_record(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    damage_second(broker)
    for changes in ({}, sql("a = '1'")):
        first = await broker.pull(0, **changes)
        at = int(first.fields["nextBeginOffset"])
        assert (first.code, tags(first)[0], at in (1, 3)) == (0, "A", True)
        rest = await broker.pull(1, **changes)
        assert (rest.code, tags(rest), rest.fields["nextBeginOffset"]) == (0, ["C"], "3")
    # Where nothing is left in what was looked at, the reader is to go on at once, and further on.
    alone = await broker.pull(1, max_msg_nums=1)
    assert (alone.code, alone.body, alone.fields["nextBeginOffset"]) == (20, b"", "2")
    assert broker.store.damaged.count == 1
    assert caplog.text.count("record is damaged, and passed over") == 1


async def test_a_queue_that_is_put_right_is_asked_for_again_and_is_whole_then(
    broker: Broker, tmp_path: Path
) -> None:
    broker.put(*"ABCDEF")
    broker.store.sync_derived()
    path = tmp_path / "consumequeue" / "t" / "0" / f"{0:020d}"
    with path.open("r+b") as file:
        file.seek(43)
        file.write(b"\xff")
    async with running(keep_repaired(broker.store, broker.clock), "repairs"):
        await asyncio.sleep(0)
        refused = await broker.pull(2)
        assert (refused.code, "ask again" in str(refused.remark)) == (2, True)
        async with asyncio.timeout(60):
            while (answer := await broker.pull(2)).code == 2:  # noqa: ASYNC110 - it asks again
                await asyncio.sleep(0)
    assert tags(answer) == list("CDEF")


# What is cold


def slow_down(broker: Broker, **limits: int) -> None:
    broker.cold.reconfigure(
        BrokerConfig(data=broker.store.config.root, cold_flow_control=True, **limits)
    )


async def test_who_reads_too_much_that_is_cold_waits_and_reads_what_is_hot(broker: Broker) -> None:
    broker.put(*["A"] * 10, body=bytes(500))
    slow_down(broker, cold_group_bytes=1500)
    assert tags(await broker.pull(0, max_msg_nums=1)) == ["A"]
    assert tags(await broker.pull(1, max_msg_nums=2)) == ["A", "A"]
    refused = await broker.pull(3)
    assert refused.code == 2
    assert "This consumer group is reading cold data" in (refused.remark or "")
    assert (await broker.pull(0, consumer_group="other", max_msg_nums=1)).code == 0
    assert tags(await broker.pull(9)) == ["A"], "the last one is hot"
    await broker.clock.advance(WINDOW_MS)
    assert (await broker.pull(3)).code == 0


async def test_nobody_waits_unless_it_is_switched_on(broker: Broker) -> None:
    broker.put(*["A"] * 10, body=bytes(500))
    broker.cold.allow("g", 0)
    for _ in range(3):
        assert (await broker.pull(0)).code == 0
    assert broker.cold.info()["runtimeTable"] == {}
    slow_down(broker)
    with pytest.raises(RequestRejected, match="counted one by one"):
        broker.handlers.lane_plan(pull(0), 11)
    assert (await broker.pull(0)).code == 0
    assert (await broker.pull(0)).code == 2


async def test_an_expression_is_held_back_like_a_tag(broker: Broker) -> None:
    broker.put(*["A"] * 10, body=bytes(500), n=1)
    slow_down(broker, cold_group_bytes=1)
    asked = {"subscription": "n = 1", "expression_type": SQL92, "max_msg_nums": 1}
    assert (await broker.pull(0, **asked)).code == 0
    assert (await broker.pull(1, **asked)).code == 2


async def test_waits_of_a_peer_that_takes_nothing_are_answered_when_it_does(broker: Broker) -> None:
    peer = PeerConnection(broker.router.answer, limits=ConnectionLimits())
    waits = [
        asyncio.create_task(broker.router.answer(to_command(pull(wait_ms=15_000), number), peer))
        for number in range(2)
    ]
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(broker.waiting) == 2
    peer.pause_writing()  # as when what was written before is more than its limit
    broker.put("A")
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(broker.waiting) == 0
    assert not any(each.done() for each in waits)
    peer.resume_writing()
    assert [tags(each) for each in await asyncio.gather(*waits)] == [["A"], ["A"]]
