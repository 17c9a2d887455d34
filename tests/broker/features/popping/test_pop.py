"""A pop takes what nobody else has, from every queue, and what comes again too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.support.pop_parts import INVISIBLE_MS, PopParts, bodies
from tests.broker.support.stepped_clock import HOUR_MS, SteppedClock

from rocketpipe.broker.delivery.filtering import Filters
from rocketpipe.broker.features.popping.pop import PopAsk
from rocketpipe.errors import RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.pop_offsets import PoppedMessage, PoppedQueue
from rocketpipe.protocol.requests.popping import FROM_MAX
from rocketpipe.record.codec import RecordView, view_records
from rocketpipe.testing.clock import ManualClock

#: Properties that leave no room for what a broker adds.
FULL = b"k\x01" + b"x" * (32_767 - 20 - len(b"k\x01\x02")) + b"\x02"


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[PopParts]:
    made = PopParts(tmp_path, ManualClock())
    yield made
    made.abandon()


async def test_two_pops_share_what_there_is(parts: PopParts) -> None:
    await parts.send(b"0", b"1", b"2")
    await parts.send(b"3", b"4", queue_id=1)
    first = await parts.pop(count=2)
    second = await parts.pop()
    assert len(first) == 2
    assert bodies(first + second) == [b"0", b"1", b"2", b"3", b"4"]
    assert await parts.pop() == []
    assert bodies(await parts.pop(group="other")) == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_pop_tells_what_is_left_and_where_it_began(parts: PopParts) -> None:
    await parts.send(b"0", b"1", b"2")
    popped = await parts.popped(count=2, queue_id=0)
    queue = PoppedQueue(0, 0)
    assert popped.rest == 1
    assert popped.starts == {queue: 0}
    assert popped.taken == {queue: [0, 1]}
    popped = await parts.popped(queue_id=0)
    assert popped.starts == {queue: 2}
    assert popped.rest == 0


async def test_tags_and_expressions_choose_and_the_rest_is_passed_over(parts: PopParts) -> None:
    for number in range(6):
        tag = b"TAGS\x01%c\x02n\x01%d\x02" % (b"AB"[number % 2], number)
        await parts.send(b"%d" % number, properties=tag)
    tags = Filters().choice("TAG", "B")
    assert bodies(await parts.pop(choice=tags)) == [b"1", b"3", b"5"]
    assert parts.revive_log.places.next("g", "t", 0) == 6
    sql = Filters().choice("SQL92", "n > 3")
    assert bodies(await parts.pop(choice=sql, group="h")) == [b"4", b"5"]
    none = Filters().choice("SQL92", "n > 30")
    assert await parts.pop(choice=none, group="i") == []
    assert parts.revive_log.places.next("i", "t", 0) == 6, "nobody looks at them again"


async def test_no_more_is_given_than_was_asked_for_when_an_expression_chooses(
    parts: PopParts,
) -> None:
    for number in range(5):
        await parts.send(b"%d" % number, properties=b"n\x01%d\x02" % number)
    sql = Filters().choice("SQL92", "n > 0")
    assert bodies(await parts.pop(choice=sql, count=2)) == [b"1", b"2"]
    assert bodies(await parts.pop(choice=sql)) == [b"3", b"4"]


async def test_what_was_not_acknowledged_comes_again_under_its_own_topic(parts: PopParts) -> None:
    await parts.send(b"0", b"1")
    first = await parts.pop()
    await parts.ack(first[0])
    await parts.pass_time(INVISIBLE_MS - 1)
    assert await parts.pop() == []
    await parts.pass_time(1)
    (again,) = await parts.pop()
    assert again.body == first[1].body
    assert again.tries == 1
    assert again.topic == "%RETRY%g+t"
    (raw,) = (await parts.popped(group="g")).chunks or [b""]
    assert raw == b"", "it is hidden again"


async def test_it_comes_again_by_the_first_name_where_that_is_set(tmp_path: Path) -> None:
    parts = PopParts(tmp_path, ManualClock(), retry_v2=False)
    await parts.send(b"0")
    await parts.pop()
    await parts.pass_time(INVISIBLE_MS)
    assert [each.body for each in parts.stored("%RETRY%g_t")] == [b"0"]
    (again,) = await parts.pop()
    assert (again.body, again.topic, again.tries) == (b"0", "%RETRY%g_t", 1)
    parts.abandon()


@pytest.mark.parametrize("retry_v2", [True, False], ids=["second form", "first form"])
async def test_what_comes_again_goes_to_its_own_group_under_its_own_topic(
    tmp_path: Path, *, retry_v2: bool
) -> None:
    parts = PopParts(tmp_path, ManualClock(), retry_v2=retry_v2)
    places = [("a", "b_c"), ("a_b", "c")]
    for group, topic in places:
        parts.tables.topics.ensure(topic, queues=1, now_ms=parts.clock.now_ms())
        parts.tables.groups.ensure(group, parts.clock.now_ms())
        await parts.send(f"of {group}".encode(), topic=topic)
        # With no room for a mark the name alone can tell.
        await parts.send(f"full {group}".encode(), topic=topic, properties=FULL)
    for tries in range(3):
        for group, topic in places:
            got = await parts.pop(group=group, topic=topic)
            assert bodies(got) == [f"full {group}".encode(), f"of {group}".encode()]
            assert [each.tries for each in got] == [tries, tries]
            assert await parts.pop(group=group, topic=topic) == []
        await parts.pass_time(INVISIBLE_MS)
    parts.abandon()


async def test_what_an_older_broker_left_by_the_first_name_is_read_and_goes_on_by_the_second(
    parts: PopParts,
) -> None:
    parts.tables.topics.ensure("%RETRY%g_t", queues=1, now_ms=parts.clock.now_ms())
    popped_once = b"1ST_POP_TIME\x011\x02"
    await parts.send(b"old", topic="%RETRY%g_t", properties=popped_once, reconsume_times=1)
    sent_back = b"RETRY_TOPIC\x01t\x02ORIGIN_MESSAGE_ID\x01X\x02"
    await parts.send(b"of group g_t", topic="%RETRY%g_t", properties=sent_back)
    other = b"1ST_POP_TIME\x011\x02ORIGIN_GROUP\x01other\x02"
    await parts.send(b"of another", topic="%RETRY%g_t", properties=other)
    (got,) = await parts.pop()
    assert (got.body, got.topic) == (b"old", "%RETRY%g_t")
    await parts.pass_time(INVISIBLE_MS)
    (got,) = await parts.pop()
    assert (got.body, got.topic, got.tries) == (b"old", "%RETRY%g+t", 2)
    await parts.ack(got)
    await parts.pass_time(INVISIBLE_MS)
    assert await parts.pop() == []


async def test_a_group_begins_with_the_first_message_or_with_the_last(parts: PopParts) -> None:
    await parts.send(b"0", b"1", b"2")
    assert parts.pops.place("g", "t", 0, FROM_MAX) == 0, "nothing of the queue was lost yet"
    assert parts.pops.place("h", "t", 0, 0) == 0


async def test_an_offset_that_the_queue_does_not_have_is_put_right(parts: PopParts) -> None:
    await parts.send(b"0", b"1")
    parts.tables.offsets.commit("g", "t", 0, QueueOffset(99))
    assert await parts.pop() == []
    await parts.send(b"2")
    assert bodies(await parts.pop()) == [b"2"]


async def test_in_order_nothing_is_given_before_what_was_given_is_acknowledged(
    parts: PopParts,
) -> None:
    await parts.send(b"0", b"1", b"2")
    first = await parts.popped(ordered=True, count=2)
    assert [each.body for each in view_records(b"".join(first.chunks))] == [b"0", b"1"]
    assert first.order_counts == {PoppedQueue(0, 0): 0}
    assert (await parts.popped(ordered=True)).count == 0
    await parts.pass_time(INVISIBLE_MS)
    again = await parts.popped(ordered=True, count=2, attempt_id="a")
    assert [each.body for each in view_records(b"".join(again.chunks))] == [b"0", b"1"]
    queue = PoppedQueue(0, 0)
    assert again.order_counts == {
        PoppedMessage(queue, QueueOffset(0)): 1,
        PoppedMessage(queue, QueueOffset(1)): 1,
        queue: 1,
    }
    same = await parts.popped(ordered=True, count=2, attempt_id="a")
    assert same.count == 2, "the attempt that has them may read them again"


async def test_peeking_takes_nothing(parts: PopParts) -> None:
    await parts.send(b"0", b"1")
    topic = parts.tables.topics.get("t")
    assert topic is not None
    ask = PopAsk(group="g", topic=topic, queue_id=None, count=1, invisible_ms=0)
    found = await parts.pops.peek(ask)
    assert [RecordView(each).body for each in found.chunks] == [b"0"]
    assert found.rest == 1
    assert parts.pops.has_some(ask)
    assert bodies(await parts.pop()) == [b"0", b"1"]
    assert not parts.pops.has_some(ask)


async def test_when_too_much_is_in_flight_no_more_is_given(parts: PopParts) -> None:
    await parts.send(b"0", b"1")
    parts.revive_log.flights._limit = 1
    (got,) = await parts.pop(count=1)
    with pytest.raises(RequestRejected, match="acknowledge what was received") as refused:
        await parts.pop()
    assert refused.value.code == ResponseCode.SYSTEM_BUSY
    await parts.ack(got)
    assert bodies(await parts.pop()) == [b"1"]


async def test_a_queue_that_fails_does_not_keep_back_what_another_gave(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parts.send(b"0")
    await parts.send(b"1", queue_id=1)
    popped = parts.revive_log.popped

    async def once(*given: Any) -> None:
        await popped(*given)
        monkeypatch.setattr(parts.revive_log, "popped", full)

    async def full(*given: Any) -> None:
        raise RequestRejected(ResponseCode.SERVICE_NOT_AVAILABLE, "no room")

    monkeypatch.setattr(parts.revive_log, "popped", once)
    first = await parts.pop()
    assert len(first) == 1
    with pytest.raises(RequestRejected, match="no room"):
        await parts.pop()
    monkeypatch.undo()
    assert bodies(first + await parts.pop()) == [b"0", b"1"]


@pytest.mark.parametrize("ordered", [False, True], ids=["any order", "in order"])
@pytest.mark.parametrize("stored", [False, True], ids=["before it is noted", "after it is noted"])
async def test_what_a_pop_took_whose_asker_went_away_comes_again_at_once(
    parts: PopParts, monkeypatch: pytest.MonkeyPatch, *, ordered: bool, stored: bool
) -> None:
    await parts.send(b"0")
    take, reached, forever = parts.intake.take, asyncio.Event(), asyncio.Event()

    async def stuck(*given: Any, **more: Any) -> Any:
        if stored:
            await take(*given, **more)
        reached.set()
        await forever.wait()

    monkeypatch.setattr(parts.intake, "take", stuck)
    asking = asyncio.create_task(parts.pop(queue_id=0, ordered=ordered))
    await reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    monkeypatch.undo()
    await parts.pass_time(1)
    await parts.pass_time(1)
    assert bodies(await parts.pop(ordered=ordered)) == [b"0"]


@pytest.mark.parametrize("step_ms", [-HOUR_MS, HOUR_MS])
async def test_a_queue_popped_in_order_is_not_free_as_the_wall_clock_was_set(
    tmp_path: Path, step_ms: int
) -> None:
    clock = SteppedClock()
    parts = PopParts(tmp_path, clock)
    try:
        await parts.send(b"0", b"1")
        assert bodies(await parts.pop(count=1, ordered=True)) == [b"0"]
        clock.step(step_ms)
        assert await parts.pop(count=1, ordered=True) == []
        await clock.advance(INVISIBLE_MS)
        assert bodies(await parts.pop(count=1, ordered=True)) == [b"0"]
    finally:
        parts.abandon()
