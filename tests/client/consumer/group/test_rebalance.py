"""Who claims and releases what, when the group or the topic changes."""

from __future__ import annotations

import asyncio

import pytest
from tests.client.consumer.support.fake_broker import desk_and_session
from tests.waiting import until

from rocketpipe.background import running
from rocketpipe.client.consumer.group.assignment import AVERAGE, CIRCLE, Strategy, configured
from rocketpipe.client.consumer.group.rebalance import AT_LEAST_MS, EVERY_MS, Change, Rebalancer
from rocketpipe.client.consumer.pulling.member import PullMember
from rocketpipe.client.consumer.pulling.read_ahead import FetchBuffer, ReadLimits
from rocketpipe.client.session import Session
from rocketpipe.errors import RequestRejected
from rocketpipe.model.route import MessageQueue
from rocketpipe.model.subscription import ConsumeFromWhere, MessageModel, Subscription
from rocketpipe.protocol.codes import ResponseCode
from rocketpipe.protocol.requests.clients import GetConsumerListByGroup, Heartbeat
from rocketpipe.testing.clock import ManualClock

CLUSTERING = MessageModel.CLUSTERING
FIRST = ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET


class Hands:
    """Claims and releases what it is told to, unless a test says otherwise."""

    def __init__(self) -> None:
        self.holding: set[MessageQueue] = set()
        self.refused: set[MessageQueue] = set()
        self.stuck: set[MessageQueue] = set()
        self.error: Exception | None = None
        self.acts: list[str] = []

    async def claim(self, queue: MessageQueue) -> bool:
        await asyncio.sleep(0)
        if self.error is not None:
            raise self.error
        if queue in self.refused:
            return False
        assert queue not in self.holding, "a queue is claimed once"
        self.holding.add(queue)
        self.acts.append(f"+{queue.topic}{queue.queue_id}")
        return True

    async def release(self, queue: MessageQueue) -> bool:
        await asyncio.sleep(0)
        if queue in self.stuck:
            return False
        self.holding.remove(queue)
        self.acts.append(f"-{queue.topic}{queue.queue_id}")
        return True


def rebalancer(
    session: Session, hands: Hands, strategy: Strategy = AVERAGE, model: MessageModel = CLUSTERING
) -> Rebalancer:
    made = Rebalancer(session, "g", model, strategy, hands)
    made.watch("t")
    return made


def queue(number: int, topic: str = "t") -> MessageQueue:
    return MessageQueue(topic=topic, broker_name="a", queue_id=number)


def test_a_change_is_the_difference_in_order() -> None:
    change = Change.between({queue(0), queue(11), queue(2)}, [queue(10), queue(2), queue(9)])
    assert change == Change((queue(0), queue(11)), (queue(9), queue(10)))
    assert Change.between([queue(1)], [queue(1)]) == Change((), ())


async def test_a_member_claims_its_share_and_releases_what_others_are_due() -> None:
    async with desk_and_session(t={"a": 4}) as (desk, session):
        hands = Hands()
        balancing = rebalancer(session, hands)
        desk.members = [session.client_id]
        assert await balancing.balance()
        assert balancing.owned == hands.holding == set(desk.queues("t"))
        hands.acts.clear()
        # "~" sorts behind every id, so the first half stays here.
        desk.members = ["~", session.client_id]
        assert await balancing.balance()
        assert balancing.owned == hands.holding == {queue(0), queue(1)}
        assert hands.acts == ["-t2", "-t3"]
        assert await balancing.balance()
        desk.members = ["!", session.client_id]
        assert await balancing.balance()
        assert hands.acts[2:] == ["-t0", "-t1", "+t2", "+t3"]


async def test_two_members_share_out_everything_and_nothing_twice() -> None:
    async with desk_and_session(t={"a": 5, "b": 4}) as (desk, session):
        async with Session(desk.address) as other:
            desk.members = [other.client_id, session.client_id]
            both = [Hands(), Hands()]
            for hands, each in zip(both, (session, other), strict=True):
                assert await rebalancer(each, hands, CIRCLE).balance()
            assert not both[0].holding & both[1].holding
            assert both[0].holding | both[1].holding == set(desk.queues("t"))


async def test_broadcasting_claims_every_queue_and_asks_for_no_members() -> None:
    async with desk_and_session(t={"a": 4}) as (desk, session):
        hands = Hands()
        assert await rebalancer(session, hands, model=MessageModel.BROADCASTING).balance()
        assert hands.holding == set(desk.queues("t"))
        assert not desk.count(GetConsumerListByGroup)


async def test_a_topic_that_grows_and_one_that_is_dropped() -> None:
    async with desk_and_session(t={"a": 2}, u={"a": 1}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = rebalancer(session, hands)
        balancing.watch("u")
        assert await balancing.balance()
        assert sorted(hands.acts) == ["+t0", "+t1", "+u0"]
        desk.topics["t"] = {"a": 3}
        await session.routes.refresh("t")
        balancing.unwatch("u")
        assert await balancing.balance()
        assert hands.acts[3:] == ["+t2", "-u0"]


async def test_what_is_refused_is_left_undone_and_done_by_a_later_round() -> None:
    async with desk_and_session(t={"a": 3}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = rebalancer(session, hands)
        hands.refused = {queue(1)}
        assert not await balancing.balance()
        assert balancing.owned == {queue(0), queue(2)}
        hands.refused.clear()
        assert await balancing.balance()
        assert balancing.owned == set(desk.queues("t"))
        hands.stuck = {queue(0)}
        desk.members = ["!", "#", session.client_id]
        assert not await balancing.balance()
        assert balancing.owned == {queue(0), queue(2)}
        hands.stuck.clear()
        assert await balancing.balance()
        assert balancing.owned == {queue(2)}


@pytest.mark.parametrize("error", [RequestRejected(1, "no"), RuntimeError("a bug")])
async def test_a_claim_that_fails_is_tried_again(error: Exception) -> None:
    async with desk_and_session(t={"a": 1}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        hands.error = error
        balancing = rebalancer(session, hands)
        assert not await balancing.balance()
        hands.error = None
        assert await balancing.balance()
        assert hands.acts == ["+t0"]


async def test_what_cannot_be_told_changes_nothing() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = rebalancer(session, hands)
        assert await balancing.balance()
        refusal = RequestRejected(ResponseCode.SYSTEM_ERROR, "no consumer for this group")
        desk.refuse["GetConsumerListByGroup"] = refusal
        assert not await balancing.balance()
        desk.refuse.clear()
        desk.members = []
        assert not await balancing.balance()
        balancing.watch("unknown")  # such as a retry topic that does not exist yet
        desk.members = [session.client_id]
        assert await balancing.balance()
        assert hands.acts == ["+t0", "+t1"]


async def test_a_member_that_is_not_listed_gives_all_up_and_beats() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = rebalancer(session, hands)
        await balancing.balance()
        desk.members = ["somebody else"]
        member = PullMember(session, "g", CLUSTERING, FIRST, FetchBuffer(ReadLimits()))
        member.subscriptions["t"] = Subscription(topic="t")
        session.join(member)
        beats = desk.count(Heartbeat)
        assert not await balancing.balance()
        assert balancing.owned == set()
        assert desk.count(Heartbeat) > beats


async def test_a_strategy_that_fails_changes_nothing() -> None:
    def share(*_: object) -> list[MessageQueue]:
        raise ZeroDivisionError("somebody's own")

    async with desk_and_session(t={"a": 2}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        assert not await rebalancer(session, hands, Strategy("OWN", share)).balance()
        assert not hands.acts


async def test_queues_of_other_topics_are_not_taken_from_a_configuration() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        strategy = configured([queue(1), queue(0, "elsewhere")])
        assert await rebalancer(session, hands, strategy).balance()
        assert hands.acts == ["+t1"]


async def test_whoever_is_to_know_is_told_of_topics_that_changed_and_no_others() -> None:
    told: list[str] = []

    async def changed(topic: str) -> None:
        told.append(topic)

    async with desk_and_session(t={"a": 2}, u={"a": 2}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = Rebalancer(session, "g", CLUSTERING, AVERAGE, hands, changed=changed)
        balancing.watch("t")
        await balancing.balance()
        balancing.watch("u")
        await balancing.balance()
        await balancing.balance()
        assert told == ["t", "u"]


async def test_a_queue_that_its_reader_gave_up_is_claimed_again() -> None:
    async with desk_and_session(t={"a": 2}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = rebalancer(session, hands)
        await balancing.balance()
        hands.holding.discard(queue(0))
        balancing.forget(queue(0))
        assert balancing.owned == {queue(1)}
        await balancing.balance()
        assert hands.acts == ["+t0", "+t1", "+t0"]


async def test_the_end_releases_everything_and_claims_nothing_more() -> None:
    async with desk_and_session(t={"a": 40}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        balancing = rebalancer(session, hands)
        await balancing.balance()
        assert len(hands.holding) == 40
        await balancing.close()
        assert not hands.holding
        assert await balancing.balance()
        assert not hands.holding
        assert balancing.owned == frozenset()


# When


async def test_rounds_come_on_notice_and_by_themselves_but_not_in_a_heap() -> None:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        desk.members = [session.client_id]
        balancing = rebalancer(session, Hands())

        def rounds() -> int:
            return desk.count(GetConsumerListByGroup)

        async def turn(duration_ms: int) -> None:
            await clock.advance(duration_ms)
            async with balancing._round:  # a round that began is over
                pass

        async with running(balancing.run(), "rounds"):
            await turn(0)  # it waits now
            await turn(EVERY_MS - 1)
            assert rounds() == 0
            await clock.advance(1)
            await until(lambda: rounds() == 1 and bool(balancing.owned))
            # Notices that come close together make one round, a second after the last.
            for _ in range(5):
                balancing.notify()
                await turn(AT_LEAST_MS // 10)
            assert rounds() == 1
            await clock.advance(AT_LEAST_MS)
            await until(lambda: rounds() == 2)
            await turn(EVERY_MS // 2)
            assert rounds() == 2
            balancing.notify()
            await until(lambda: rounds() == 3)


async def test_what_was_left_undone_is_tried_a_second_later() -> None:
    clock = ManualClock()
    async with desk_and_session(clock, t={"a": 1}) as (desk, session):
        desk.members = [session.client_id]
        hands = Hands()
        hands.refused = {queue(0)}
        balancing = rebalancer(session, hands)
        async with running(balancing.run(), "rounds"):
            balancing.notify()
            await until(lambda: desk.count(GetConsumerListByGroup) == 1)
            hands.refused.clear()
            async with balancing._round:
                pass
            # The round is over; its loop may not have begun to wait for the clock.
            async with asyncio.timeout(60):
                while hands.acts != ["+t0"]:
                    await clock.advance(AT_LEAST_MS)
                    await asyncio.sleep(0.001)
