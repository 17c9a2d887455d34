"""A broker killed in the middle of everything that it does: what it acknowledged is there.

``ROCKETPIPE_KILLS`` says how often, over all scenarios together.
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from tests.broker.support.asking import joining
from tests.faults.support.broker_process import WORKERS, Broker, Scenario, live_and_die

from rocketpipe.broker.tables.offsets import OffsetsFile
from rocketpipe.broker.tables.table_file import TableFile
from rocketpipe.clock import SystemClock
from rocketpipe.errors import StoreError
from rocketpipe.model.group import GroupSettings
from rocketpipe.model.ids import OffsetId
from rocketpipe.model.message import StoredMessage
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.route import MessageQueue
from rocketpipe.protocol.requests.clients import LockBatch, QueueClaim
from rocketpipe.protocol.requests.groups import GetGroupConfig, UpdateAndCreateGroup
from rocketpipe.protocol.requests.offsets import QueryConsumerOffset, UpdateConsumerOffset
from rocketpipe.protocol.requests.sending import SendMessageBack
from rocketpipe.protocol.requests.topics import GetTopicConfig, UpdateAndCreateTopic
from rocketpipe.store.files.disk import Disk
from rocketpipe.store.layout import StoreLayout

SCENARIOS = 10
KILLS = max(1, int(os.environ.get("ROCKETPIPE_KILLS", "20")) // SCENARIOS)
TOPIC = "t"


class Sends(Scenario):
    """Single messages, four queues at once."""

    def __init__(self) -> None:
        self._numbers = count()
        self._acked: dict[tuple[int, int], bytes] = {}

    async def step(self, broker: Broker, worker: int) -> None:
        body = b"message %d" % next(self._numbers)
        reply = await broker.send(TOPIC, worker, body)
        place = worker, reply.queue_offset
        assert place not in self._acked, "two messages in one place"
        self._acked[place] = body
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        seen: Counter[bytes] = Counter()
        for queue_id in range(WORKERS):
            messages = await broker.read(TOPIC, queue_id)
            seen.update(each.body for each in messages)
            for (queue, offset), body in self._acked.items():
                if queue == queue_id:
                    assert messages[offset].body == body
        assert max(seen.values()) == 1, "one send, two messages"


class Batches(Scenario):
    """Several messages in one send: all of them or none."""

    span = (10, 60)

    def __init__(self) -> None:
        self._numbers = count()
        self._acked: set[int] = set()
        self._sizes: dict[int, int] = {}

    async def step(self, broker: Broker, worker: int) -> None:
        number = next(self._numbers)
        size = self._sizes[number] = 2 + number % 7
        await broker.send(TOPIC, worker, *(b"%d/%d" % (number, each) for each in range(size)))
        self._acked.add(number)
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        whole: set[int] = set()
        for queue_id in range(WORKERS):
            messages = await broker.read(TOPIC, queue_id)
            at = 0
            while at < len(messages):
                number = int(messages[at].body.split(b"/")[0])
                size = self._sizes[number]
                bodies = [each.body for each in messages[at : at + size]]
                assert bodies == [b"%d/%d" % (number, each) for each in range(size)]
                assert number not in whole
                whole.add(number)
                at += size
        assert whole >= self._acked


class Growing:
    """What is read of topics that grow by themselves, from where the last look ended."""

    def __init__(self, topic: str, queues: int) -> None:
        self._topic = topic
        self._ends = dict.fromkeys(range(queues), 0)
        self.found: list[StoredMessage] = []

    async def look(self, broker: Broker, *, wait: bool = False) -> None:
        for queue_id, end in self._ends.items():
            some = await broker.pull(self._topic, queue_id, end, wait=wait)
            self.found += some
            self._ends[queue_id] += len(some)


class Delays(Scenario):
    """Messages that show a second later; the broker dies as they do."""

    span = (5, 60)

    def __init__(self) -> None:
        self._numbers = count()
        self._clock = SystemClock()
        self._sent_ms: dict[bytes, int] = {}
        self._acked: set[bytes] = set()
        self._lives = 1
        self._shown = Growing(TOPIC, 1)

    async def prepare(self, broker: Broker) -> None:
        self._left = 200

    async def step(self, broker: Broker, worker: int) -> None:
        if self._left <= 0:
            if worker == 0:
                before = len(self._shown.found)
                await self._shown.look(broker, wait=True)
                self.progress += len(self._shown.found) - before
                return
            self._left = 1
        self._left -= 1
        body = b"message %d" % next(self._numbers)
        self._sent_ms[body] = self._clock.now_ms()
        await broker.send(TOPIC, 0, body, properties="DELAY\x011\x02")
        self._acked.add(body)

    async def check(self, broker: Broker) -> None:
        self._lives += 1

    async def finish(self, broker: Broker) -> None:
        shown = Growing(TOPIC, 1)
        while not self._acked <= {each.body for each in shown.found}:
            await shown.look(broker, wait=True)
        times = Counter(each.body for each in shown.found)
        # What was shown and not yet noted when it died is shown again, once for each death.
        assert max(times.values()) <= self._lives
        for each in shown.found:
            assert each.stored_ms >= self._sent_ms[each.body] + 1000, "early"


class SendBacks(Scenario):
    """Messages that a consumer could not use: to be tried again, or given up on."""

    def __init__(self) -> None:
        self._numbers = count()
        self._again: set[bytes] = set()
        self._given_up: set[bytes] = set()

    async def step(self, broker: Broker, worker: int) -> None:
        number = next(self._numbers)
        body = b"message %d" % number
        reply = await broker.send(TOPIC, worker, body)
        give_up = number % 2 == 0
        await broker.ask(
            SendMessageBack(
                offset=OffsetId.parse(reply.msg_id).log_offset,
                group="g",
                delay_level=-1 if give_up else 1,
                origin_topic=TOPIC,
            )
        )
        (self._given_up if give_up else self._again).add(body)
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        self._hold(await broker.read("%DLQ%g", 0), self._given_up)

    async def finish(self, broker: Broker) -> None:
        await self.check(broker)
        again = Growing("%RETRY%g", 1)
        while not self._again <= {each.body for each in again.found}:
            await again.look(broker, wait=True)
        self._hold(again.found, self._again)

    def _hold(self, messages: list[StoredMessage], wanted: set[bytes]) -> None:
        assert wanted <= {each.body for each in messages}
        for each in messages:
            assert each.reconsume_times == 1
            assert each.properties["RETRY_TOPIC"] == TOPIC


class Offsets(Scenario):
    """A group's place, which is on disk within a second: never ahead of what was committed."""

    span = (1, 3)

    def __init__(self, store: Path) -> None:
        self._file = TableFile(
            Disk(), StoreLayout(store).config / "consumerOffset.json", OffsetsFile
        )
        self._told = dict.fromkeys(range(WORKERS), 0)
        self._saved: dict[int, int] = {}

    async def prepare(self, broker: Broker) -> None:
        await broker.ask(UpdateAndCreateGroup(settings=GroupSettings(name="g")))
        await broker.send(TOPIC, 0, b"so that there is a topic")

    async def step(self, broker: Broker, worker: int) -> None:
        place = self._told[worker] + 1
        self._told[worker] = place
        await broker.ask(
            UpdateConsumerOffset(
                consumer_group="g", topic=TOPIC, queue_id=worker, commit_offset=QueueOffset(place)
            )
        )
        if worker == 0 and place % 20 == 0:
            saved = self._on_disk()
            self.progress += saved != self._saved
            self._saved = saved

    def _on_disk(self) -> dict[int, int]:
        try:
            table = self._file.load()
        except StoreError:
            return self._saved  # it is being replaced just now
        found = table.offsets.get(f"{TOPIC}@g") if table is not None else None
        return dict(found or {})

    async def check(self, broker: Broker) -> None:
        for queue_id, told in self._told.items():
            reply = await broker.ask(
                QueryConsumerOffset(consumer_group="g", topic=TOPIC, queue_id=queue_id)
            )
            assert self._saved.get(queue_id, 0) <= reply.offset <= told


class InOrder(Scenario):
    """One member at a time consumes a queue, in order, and goes on where the last one stopped."""

    span = (20, 60)
    QUEUE = MessageQueue(topic=TOPIC, broker_name="broker-a", queue_id=0)

    def __init__(self) -> None:
        self._sent = 0
        self._consumed: list[int] = []
        self._committed = 0
        self._life = 0

    async def _lock(self, broker: Broker, worker: int) -> bool:
        member = f"member {worker}"
        await broker.ask(joining("g", member))
        claim = QueueClaim(consumer_group="g", client_id=member, queues=(self.QUEUE,))
        return bool((await broker.ask(LockBatch(claim=claim))).locked.queues)

    async def prepare(self, broker: Broker) -> None:
        await broker.ask(UpdateAndCreateGroup(settings=GroupSettings(name="g")))
        self._life += 1
        if self._life > 1:
            # Another member is the first to come, and the queue is still that of the last life.
            assert not await self._lock(broker, 1), "a restart gave the queue to a second owner"
        assert await self._lock(broker, 0), "its owner does not get the queue again"

    async def step(self, broker: Broker, worker: int) -> None:
        if worker == 1:
            assert not await self._lock(broker, worker), "two members own one queue"
        elif worker == 2:
            await broker.send(TOPIC, 0, b"%d" % self._sent)
            self._sent += 1
        elif worker == 0:
            assert await self._lock(broker, 0)
            await self._consume(broker)
        else:
            await broker.ask(QueryConsumerOffset(consumer_group="g", topic=TOPIC, queue_id=0))

    async def _consume(self, broker: Broker) -> None:
        for each in await broker.pull(TOPIC, 0, self._committed):
            self._consumed.append(each.queue_offset)
            await broker.ask(
                UpdateConsumerOffset(
                    consumer_group="g",
                    topic=TOPIC,
                    queue_id=0,
                    commit_offset=QueueOffset(each.queue_offset + 1),
                )
            )
            self._committed = each.queue_offset + 1
            self.progress += 1

    async def check(self, broker: Broker) -> None:
        reply = await broker.ask(QueryConsumerOffset(consumer_group="g", topic=TOPIC, queue_id=0))
        assert reply.offset <= self._committed + 1
        self._committed = reply.offset

    async def finish(self, broker: Broker) -> None:
        await self.check(broker)
        messages = await broker.read(TOPIC, 0)
        assert len(messages) >= self._sent
        while self._committed < len(messages):
            await self._consume(broker)
        assert set(self._consumed) == set(range(len(messages))), "some were passed over"
        for before, after in zip(self._consumed, self._consumed[1:], strict=False):
            assert after <= before + 1, "out of order"


class Topics(Scenario):
    """Topics that operators make."""

    span = (3, 40)

    def __init__(self) -> None:
        self._numbers = count()
        self._acked: dict[str, int] = {}

    async def step(self, broker: Broker, worker: int) -> None:
        number = next(self._numbers)
        name, queues = f"topic-{number}", 1 + number % 16
        await broker.ask(
            UpdateAndCreateTopic(
                topic=name,
                default_topic="TBW102",
                read_queue_nums=queues,
                write_queue_nums=queues,
                perm=6,
            )
        )
        self._acked[name] = queues
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        for name, queues in self._acked.items():
            found = (await broker.ask(GetTopicConfig(topic=name))).details
            assert (found.read_queues, found.write_queues) == (queues, queues)


class Groups(Scenario):
    """Groups that operators make."""

    span = (3, 40)

    def __init__(self) -> None:
        self._numbers = count()
        self._acked: dict[str, int] = {}

    async def step(self, broker: Broker, worker: int) -> None:
        number = next(self._numbers)
        settings = GroupSettings(name=f"group-{number}", max_retries=number)
        await broker.ask(UpdateAndCreateGroup(settings=settings))
        self._acked[settings.name] = number
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        for name, times in self._acked.items():
            found = (await broker.ask(GetGroupConfig(group=name))).settings
            assert found.max_retries == times


class SentTopics(Scenario):
    """Topics that the first send to them makes."""

    span = (3, 40)

    def __init__(self) -> None:
        self._numbers = count()
        self._acked: dict[str, bytes] = {}

    async def step(self, broker: Broker, worker: int) -> None:
        name = f"topic-{next(self._numbers)}"
        await broker.send(name, worker, name.encode())
        self._acked[name] = name.encode()
        self.progress += 1

    async def check(self, broker: Broker) -> None:
        for name, body in self._acked.items():
            bodies = [
                each.body
                for queue_id in range(WORKERS)
                for each in await broker.pull(name, queue_id, 0)
            ]
            assert bodies == [body]


@pytest.mark.parametrize("flush", ["async", "sync"])
async def test_sends_that_were_acknowledged_outlive_a_kill(flush: str, tmp_path: Path) -> None:
    await live_and_die(tmp_path, Sends(), KILLS, ["--flush", flush])


async def test_batches_are_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    await live_and_die(tmp_path, Batches(), KILLS)


async def test_delayed_messages_show_after_a_kill_and_none_too_early(tmp_path: Path) -> None:
    await live_and_die(tmp_path, Delays(), KILLS)


async def test_what_was_sent_back_is_tried_again_or_among_the_dead_letters(tmp_path: Path) -> None:
    await live_and_die(tmp_path, SendBacks(), KILLS)


async def test_a_group_goes_on_where_the_disk_says_and_never_beyond(tmp_path: Path) -> None:
    await live_and_die(tmp_path, Offsets(tmp_path / "store"), KILLS)


async def test_consumption_in_order_goes_on_in_order_with_one_owner(tmp_path: Path) -> None:
    await live_and_die(tmp_path, InOrder(), KILLS)


async def test_topics_that_were_made_are_there_after_a_kill(tmp_path: Path) -> None:
    await live_and_die(tmp_path, Topics(), KILLS)


async def test_groups_that_were_made_are_there_after_a_kill(tmp_path: Path) -> None:
    await live_and_die(tmp_path, Groups(), KILLS)


async def test_topics_that_a_send_made_are_there_after_a_kill(tmp_path: Path) -> None:
    await live_and_die(tmp_path, SentTopics(), KILLS)
