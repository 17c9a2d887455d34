from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.client.consumer.support.counter import Counter, counter_and_session
from tests.client.consumer.support.sample_messages import QUEUE, NotedOffsets, stored
from tests.waiting import PATIENCE_S, until

from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pushing.fetch_loop import FetchLoop
from rocketpipe.client.consumer.pushing.held_queue import HeldQueue, Lease
from rocketpipe.client.consumer.received import ReceivedMessage
from rocketpipe.client.consumer.replica_choice import FIRST_AVOIDED_MS
from rocketpipe.client.consumer.tuning import PushTuning, Room
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.model import properties
from rocketpipe.model.flags import PullFlag
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import Heartbeat
from rocketpipe.protocol.requests.pulling import PullMessage
from rocketpipe.testing.clock import ManualClock


class Shelf:
    """Takes messages in hand, and leaves them there."""

    def __init__(self) -> None:
        self.taken: list[int] = []

    async def run(self) -> None: ...

    async def submit(self, held: HeldQueue, messages: Sequence[ReceivedMessage]) -> None:
        held.messages.put(messages)
        self.taken += [message.queue_offset for message in messages]

    async def attend(self, held: HeldQueue) -> None: ...

    async def clean(self, held: HeldQueue) -> None: ...


class Bench:
    def __init__(
        self, counter: Counter, session: Session, clock: ManualClock, tags: str | None, **more: Any
    ) -> None:
        self.counter, self.session, self.clock = counter, session, clock
        self.offsets = NotedOffsets()
        self.buffer = Shelf()
        self.held = HeldQueue(QUEUE)
        self.room = Room(1000, 1 << 20, 2000)
        subscription = subscription_to("orders", tags=tags, version=7)
        self.loop = FetchLoop(
            session,
            "g",
            self.offsets,
            self.buffer,
            tuning=PushTuning(),
            subscription=lambda topic: subscription,
            room=lambda topic: self.room,
            **more,
        )
        self.task: asyncio.Task[QueueOffset | None] | None = None

    def start(self, offset: int = 0) -> None:
        self.task = asyncio.create_task(self.loop.run(self.held, QueueOffset(offset)))

    @property
    def pulls(self) -> list[Any]:
        return self.counter.asked_for(PullMessage)


@asynccontextmanager
async def bench(tags: str | None = None, **more: Any) -> AsyncIterator[Bench]:
    clock = ManualClock()
    async with counter_and_session(clock, orders={"broker-a": 1}) as (counter, session):
        await session.routes.get("orders")
        made = Bench(counter, session, clock, tags, **more)
        try:
            yield made
        finally:
            if made.task is not None:
                made.task.cancel()
                await asyncio.wait([made.task])


async def test_messages_are_taken_in_hand_and_the_pull_goes_on_behind_them() -> None:
    async with bench() as at:
        at.counter.store(QUEUE, stored(3), stored(4))
        at.start(3)
        await until(lambda: len(at.pulls) == 2)
        assert at.buffer.taken == [3, 4]
        first, second = at.pulls
        assert (first.queue_offset, second.queue_offset) == (3, 5)
        assert (first.max_msg_nums, first.max_msg_bytes) == (32, 262_144)
        assert (first.suspend_timeout_millis, first.sub_version) == (15_000, 7)
        assert (first.subscription, first.sys_flag) == (None, PullFlag.SUSPEND)


async def test_a_pull_carries_what_may_be_committed_to_the_leader_only() -> None:
    async with bench() as at, follower(at) as other:
        at.held.committable = QueueOffset(3)
        at.counter.suggests = 1
        at.counter.store(QUEUE, stored(3))
        at.start(3)
        await until(lambda: other.asked_for(PullMessage))
        (first,), (second,) = at.pulls, pulls_of(other)
        assert first.sys_flag == PullFlag.SUSPEND | PullFlag.COMMIT_OFFSET
        assert first.commit_offset == 3
        assert second.sys_flag == PullFlag.SUSPEND
        assert second.queue_offset == 4


async def test_broadcast_pulls_commit_nothing() -> None:
    async with bench(commits=False) as at:
        at.held.committable = QueueOffset(3)
        at.start(3)
        await until(lambda: len(at.pulls) == 1)
        assert at.pulls[0].sys_flag == PullFlag.SUSPEND


async def test_pulling_stops_while_there_is_no_room() -> None:
    async with bench() as at:
        at.room = Room(1, 1 << 20, 2000)
        at.counter.store(QUEUE, stored(3), stored(4))
        at.start(3)
        await until(lambda: at.buffer.taken == [3, 4])
        await until(lambda: bool(at.held._shrunk._waiters))
        assert len(at.pulls) == 1
        at.held.messages.remove(list(at.held.messages._cached.values())[:1])
        at.held.shrank()
        await until(lambda: len(at.pulls) == 2)


async def test_a_span_or_too_many_bytes_stop_it_too() -> None:
    for room in (Room(1000, 1 << 20, 5), Room(1000, 3, 2000)):
        async with bench() as at:
            at.room = room
            at.counter.store(QUEUE, stored(3), stored(9))
            at.start(3)
            await until(lambda at=at: bool(at.held._shrunk._waiters))
            assert len(at.pulls) == 1


async def test_a_message_whose_tag_only_hashes_alike_is_left_out() -> None:
    # "Aa" and "BB" have the same Java hash.
    wanted = properties.encode_bytes({properties.TAGS: "Aa"})
    alike = properties.encode_bytes({properties.TAGS: "BB"})
    async with bench(tags="Aa") as at:
        at.counter.store(
            QUEUE, stored(3, raw_properties=alike), stored(4, raw_properties=wanted), stored(5)
        )
        at.start(3)
        await until(lambda: len(at.pulls) == 2)
        assert at.buffer.taken == [4]


async def test_with_empty_hands_the_offset_passes_what_does_not_fit() -> None:
    async with bench(tags="Aa") as at:
        at.counter.store(QUEUE, stored(3))
        at.start(3)
        await until(lambda: len(at.pulls) == 2)
        assert at.offsets.noted(QUEUE) == 4
        assert at.held.committable == 4


async def test_an_offset_that_moved_ends_the_pulls_with_where_to_begin_anew() -> None:
    async with bench() as at:
        at.counter.least = 50
        at.start(3)
        assert at.task is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await at.task == 50


async def test_after_a_refusal_it_rests_and_tries_again() -> None:
    async with bench() as at:
        await at.clock.advance(7)  # so that its rest cannot be taken for the session's first beat
        at.counter.refuse["PullMessage"] = RequestRejected(ResponseCode.SYSTEM_ERROR, "not now")
        at.start(3)
        await until(lambda: len(at.pulls) == 1)
        del at.counter.refuse["PullMessage"]
        at.counter.store(QUEUE, stored(3))
        await until(lambda: any(due == 1007 for due, _, _ in at.clock._sleepers))
        await at.clock.advance(999)
        assert len(at.pulls) == 1
        await at.clock.advance(1)
        await until(lambda: at.buffer.taken == [3])


async def test_a_broker_that_is_given_too_much_rests_for_a_moment_only() -> None:
    async with bench() as at:
        at.counter.refuse["PullMessage"] = RequestRejected(ResponseCode.FLOW_CONTROL, "slowly")
        at.start(3)
        await until(lambda: any(due == 20 for due, _, _ in at.clock._sleepers))


async def test_a_broker_that_does_not_know_the_subscription_is_told_at_once() -> None:
    async with bench() as at:
        at.counter.refuse["PullMessage"] = RequestRejected(
            ResponseCode.SUBSCRIPTION_NOT_EXIST, "who are you"
        )
        at.session.join(_Consumer())
        before = at.counter.count(Heartbeat)
        at.start(3)
        await until(lambda: at.counter.count(Heartbeat) > before)


class _Consumer:
    """Any consumer: somebody to send heartbeats for."""

    def producer_groups(self) -> list[str]:
        return ["g"]

    def consumers(self) -> list[Any]:
        return []

    def topics(self) -> list[str]:
        return []

    def on_ids_changed(self, group: str) -> None: ...

    def on_routes_changed(self, topic: str) -> None: ...


async def test_suspended_nothing_is_pulled_until_it_is_resumed() -> None:
    async with bench() as at:
        at.loop.suspend()
        at.counter.store(QUEUE, stored(3))
        at.start(3)
        await until(lambda: bool(at.loop._resumed._waiters))
        assert at.pulls == []
        at.loop.resume()
        await until(lambda: at.buffer.taken == [3])


async def test_it_ends_with_the_queue() -> None:
    async with bench() as at:
        at.held.drain()
        at.start(3)
        assert at.task is not None
        async with asyncio.timeout(PATIENCE_S):
            assert await at.task is None
        assert at.pulls == []


async def test_a_span_does_not_stop_a_queue_that_is_consumed_in_order() -> None:
    async with bench() as at:
        at.held.lease = Lease(at.clock.monotonic_ms())
        at.room = Room(1000, 1 << 20, 5)
        at.counter.store(QUEUE, stored(3), stored(9))
        at.start(3)
        await until(lambda: len(at.pulls) == 2)


# Leaders that go, and followers that are behind


async def test_a_follower_is_read_while_the_leader_is_gone_and_not_longer() -> None:
    async with bench() as at, follower(at) as other:
        at.held.committable = QueueOffset(3)
        here, there = at.counter.address, other.address
        at.counter.replicas["broker-a"] = {0: "127.0.0.1:1", 1: there}
        await at.session.routes.refresh("orders")
        at.start(3)
        await until(lambda: other.asked_for(PullMessage))  # no time passed
        assert pulls_of(other)[0].sys_flag == PullFlag.SUSPEND
        other.store(QUEUE, stored(3))
        await until(lambda: len(pulls_of(other)) == 2)
        at.counter.replicas["broker-a"] = {0: here, 1: there}
        await at.session.routes.refresh("orders")
        other.store(QUEUE, stored(4))
        await until(lambda: len(at.pulls) == 1)
        assert at.buffer.taken == [3, 4]
        assert at.pulls[0].queue_offset == 5


async def test_a_leader_that_comes_back_at_its_address_is_read_again() -> None:
    async with bench() as at, follower(at) as other:
        at.counter.refuse["PullMessage"] = RequestRejected(14, "starting")
        at.start(3)
        await until(lambda: other.asked_for(PullMessage))
        assert len(at.pulls) == 1
        del at.counter.refuse["PullMessage"]
        other.store(QUEUE, stored(3))
        await until(lambda: len(pulls_of(other)) == 2)
        await at.clock.advance(FIRST_AVOIDED_MS)
        other.store(QUEUE, stored(4))
        await until(lambda: len(at.pulls) == 2)
        assert at.pulls[1].queue_offset == 5


async def test_a_follower_that_is_behind_moves_nobody() -> None:
    async with bench() as at, follower(at) as other:
        at.counter.replicas["broker-a"] = {1: other.address}
        await at.session.routes.refresh("orders")
        other.least = 50  # as it says, the queue begins there
        at.start(9)
        while len(pulls_of(other)) < 4:
            await at.clock.advance(100)
            await asyncio.sleep(0.001)
        assert {pull.queue_offset for pull in pulls_of(other)} == {9}
        assert at.task is not None
        assert not at.task.done()
        at.counter.least = 60
        at.counter.replicas["broker-a"] = {0: at.counter.address, 1: other.address}
        await at.session.routes.refresh("orders")
        while not at.task.done():
            await at.clock.advance(100)
            await asyncio.sleep(0.001)
        assert at.task.result() == 60  # the leader is believed


async def test_what_a_follower_refuses_is_asked_of_the_leader() -> None:
    async with bench() as at, follower(at) as other:
        at.counter.suggests = 1
        at.counter.store(QUEUE, stored(3))
        other.refuse["PullMessage"] = RequestRejected(ResponseCode.TOPIC_NOT_EXIST, "not yet")
        at.start(3)
        await until(lambda: len(at.pulls) == 2)
        assert [pull.queue_offset for pull in at.pulls] == [3, 4]


@asynccontextmanager
async def follower(at: Bench) -> AsyncIterator[Counter]:
    """A second broker of the name, with messages of its own."""
    async with Counter.serving() as other:
        at.counter.replicas["broker-a"] = {0: at.counter.address, 1: other.address}
        await at.session.routes.refresh("orders")
        yield other


def pulls_of(counter: Counter) -> list[Any]:
    return counter.asked_for(PullMessage)
