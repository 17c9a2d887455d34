"""Queues that are begun, left, and gone elsewhere in; and what is saved of them."""

from __future__ import annotations

import pytest
from tests.client.consumer.support.fake_broker import PullDesk, desk_and_session, found
from tests.client.consumer.support.records import queue, record
from tests.waiting import until

from rocketpipe.client.consumer.group.offsets import BrokerOffsets
from rocketpipe.client.consumer.group.start import Beginnings, StartFrom
from rocketpipe.client.consumer.handling.handlers import subscription_to
from rocketpipe.client.consumer.pulling.loop import PullLoop
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadLimits
from rocketpipe.client.consumer.pulling.readers import Readers
from rocketpipe.client.session import Session
from rocketpipe.errors import QueueNotOurs, RequestRejected
from rocketpipe.model.offsets import QueueOffset
from rocketpipe.model.subscription import ConsumeFromWhere
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.offsets import UpdateConsumerOffset

FIRST = StartFrom(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)


def readers_of(session: Session, *, auto_commit: bool = True) -> tuple[Readers, FetchBuffer]:
    buffer = FetchBuffer(ReadLimits())
    loop = PullLoop(session, "g", buffer, lambda topic: subscription_to(topic))
    offsets = BrokerOffsets(session, "g")
    return Readers(
        session, offsets, Beginnings(session, offsets, FIRST), buffer, loop, auto_commit=auto_commit
    ), buffer


async def three_in_hand(desk: PullDesk, readers: Readers, buffer: FetchBuffer) -> None:
    desk.answers = [found(record(0), record(1), record(2), next_offset=3)]
    assert await readers.claim(queue())
    await until(lambda: len(buffer) == 3)


async def test_a_queue_is_read_from_where_the_group_stopped() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        readers, buffer = readers_of(session)
        desk.offsets["t", 1] = 30
        assert await readers.claim(queue(0))
        assert await readers.claim(queue(1))
        assert await readers.claim(queue(1)), "it is read once, however often it is claimed"
        await until(lambda: len(desk.pulls) == 2)
        assert {pull.queue_id: pull.queue_offset for pull in desk.pulls} == {0: 0, 1: 30}
        await readers.release_all()
        assert not buffer.places


async def test_what_cannot_be_begun_is_not_claimed() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session)
        desk.refuse["QueryConsumerOffset"] = RequestRejected(ResponseCode.SYSTEM_ERROR, "broken")
        with pytest.raises(RequestRejected, match="broken"):
            await readers.claim(queue())
        assert not buffer.places


async def test_only_what_is_done_is_saved_with_the_queue() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session)
        await three_in_hand(desk, readers, buffer)
        buffer.take(1)
        readers.place(queue()).settle()
        buffer.take(1)
        assert await readers.release(queue())
        assert desk.offsets == {("t", 0): 1}
        assert await readers.release(queue()), "there is nothing left to do"
        with pytest.raises(QueueNotOurs, match="queue 0 of 't' on 'a'"):
            readers.place(queue())
        # Somebody else has gone on meanwhile: what is remembered here counts no more.
        desk.offsets["t", 0] = 2
        await readers.claim(queue())
        assert readers.place(queue()).position == 2
        await readers.release_all()
        assert desk.offsets == {("t", 0): 2}


async def test_without_auto_commit_nothing_is_saved_that_was_not_committed() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session, auto_commit=False)
        await three_in_hand(desk, readers, buffer)
        buffer.take(2)
        readers.place(queue()).settle()
        await readers.release_all()
        assert not desk.count(UpdateConsumerOffset)


async def test_a_commit_saves_what_was_handed_out_or_what_it_is_given() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session, auto_commit=False)
        await three_in_hand(desk, readers, buffer)
        buffer.take(2)
        await readers.commit()
        assert desk.offsets == {("t", 0): 2}
        await readers.commit({queue(): 1})
        assert desk.offsets == {("t", 0): 1}
        assert await readers.committed(queue()) == 1
        with pytest.raises(QueueNotOurs, match="queue 9"):
            await readers.commit({queue(9): 1})
        desk.refuse["UpdateConsumerOffset"] = RequestRejected(ResponseCode.SYSTEM_BUSY, "busy")
        with pytest.raises(RequestRejected, match="busy"):
            await readers.commit()
        await readers.release_all()


async def test_what_could_not_be_saved_is_saved_the_next_time() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session)
        await three_in_hand(desk, readers, buffer)
        buffer.take(3)
        readers.place(queue()).settle()
        desk.refuse["UpdateConsumerOffset"] = RequestRejected(ResponseCode.SYSTEM_BUSY, "busy")
        await readers.save_done()
        desk.refuse.clear()
        await readers.save_done()
        assert desk.offsets == {("t", 0): 3}
        await readers.release_all()


async def test_asking_about_a_queue_of_others_leaves_no_trace() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        readers, _ = readers_of(session)
        desk.offsets["t", 1] = 12
        assert await readers.committed(queue(1)) == 12
        assert await readers.committed(queue(0)) is None
        desk.offsets["t", 1] = 5
        await readers.claim(queue(1))
        assert readers.place(queue(1)).position == 5
        await readers.release_all()


async def test_a_pull_that_waits_at_the_old_place_is_given_up_for_the_new_one() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session)
        await three_in_hand(desk, readers, buffer)
        await until(lambda: len(desk.pulls) == 2)
        readers.go_on_from(queue(), QueueOffset(50))
        await until(lambda: len(desk.pulls) == 3)
        assert desk.pulls[-1].queue_offset == 50
        assert len(buffer) == 0
        readers.go_on_from(queue(7), QueueOffset(50))  # released meanwhile: nobody's business
        assert list(buffer.places) == [queue()]
        await readers.release_all()
        assert desk.offsets == {("t", 0): 50}


async def test_what_is_in_hand_is_fetched_once_more_when_something_else_is_wanted() -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        readers, buffer = readers_of(session)
        await three_in_hand(desk, readers, buffer)
        buffer.take(1)
        readers.fetch_again(queue())
        await until(lambda: desk.pulls[-1].queue_offset == 1)
        assert len(buffer) == 0
        await readers.release_all()
        assert desk.offsets == {("t", 0): 0}, "what was handed out is not done by that"
