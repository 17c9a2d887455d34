"""Attempts: which brokers are tried, and what comes of it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from tests.client.producer.support.broker_parts import LOST, SILENT, World, turned, world
from tests.waiting import until

from rocketpipe.client.faults import Variant
from rocketpipe.client.producer.retry import Retries
from rocketpipe.client.producer.sending.delivery import Delivery
from rocketpipe.client.producer.sending.in_flight import SLOW_MS, InFlight
from rocketpipe.client.producer.sending.outgoing import Outgoing
from rocketpipe.client.producer.sending.publish_routes import PublishRoutes
from rocketpipe.client.producer.sending.queue_choice import QueueChoice
from rocketpipe.errors import CallTimeout, ConnectionLost, NoRoute, RequestRejected
from rocketpipe.model.message import Message
from rocketpipe.model.route import BrokerAddresses, MessageQueue, TopicRoute

T = TypeVar("T")

ONE, THREE = Retries(attempts=1), Retries()


@asynccontextmanager
async def delivery(
    here: World, variant: Variant | None = None
) -> AsyncIterator[tuple[Delivery, QueueChoice]]:
    async with here.session() as session:
        flying = InFlight(here.clock)
        choice = QueueChoice(variant, here.clock, random.Random(1))
        yield Delivery(session, PublishRoutes(session, "g"), choice, flying), choice
        await flying.close()


def outgoing() -> Outgoing:
    return Outgoing(Message("t", b"x"), "0A" * 16, 5, 100)


async def test_the_first_attempt_is_enough_when_it_goes_well() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        stored = await sending.deliver(outgoing(), 1000, THREE)
        assert stored.sure
        assert (here.taken, here["a"].asked + here["b"].asked) == (1, 1)
        assert sending.address(stored.queue) == here[stored.queue.broker_name].address


@pytest.mark.parametrize("fate", [LOST, 1, 2, 14, 16, 17, 204, 205, 1500])
async def test_a_broker_that_fails_is_followed_by_another(fate: int | str) -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        failures = 0
        for _ in range(4):
            here["a"].next = [fate]
            stored = await sending.deliver(outgoing(), 1000, THREE)
            assert stored.queue.broker_name == "b"  # first, or after the other
            failures += not here["a"].next
        assert failures == here["a"].asked > 0


@pytest.mark.parametrize("code", [13, 29, 3])
async def test_what_others_would_refuse_too_ends_at_once(code: int) -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        for name in "ab":
            here[name].next = [code]
        with pytest.raises(RequestRejected, match="says no") as refused:
            await sending.deliver(outgoing(), 1000, THREE)
        assert refused.value.code == code
        assert here["a"].asked + here["b"].asked == 1


async def test_attempts_are_counted_and_the_error_tells_of_each() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        here["a"].next = [16, 2, 1, 1]
        with pytest.raises(RequestRejected) as refused:
            await sending.deliver(outgoing(), 1000, THREE)
        assert here["a"].asked == 3
        (note,) = refused.value.__notes__
        assert [line[:14] for line in note.splitlines()] == [
            "attempt 1 at a",
            "attempt 2 at a",
            "attempt 3 at a",
        ]


async def test_the_time_covers_all_attempts() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        for name in "ab":
            here[name].next = [SILENT]
        sent = asyncio.create_task(sending.deliver(outgoing(), 1000, THREE))
        await until(lambda: here["a"].asked + here["b"].asked == 1)
        await here.clock.advance(999)
        assert not sent.done()
        await here.clock.advance(1)
        with pytest.raises(CallTimeout, match="no answer to SendMessage within 1000 ms"):
            await sent
        assert here["a"].asked + here["b"].asked == 1


async def test_an_attempt_may_be_given_up_sooner_for_another_broker() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        for name in "ab":
            here[name].next = [SILENT]
        retries = Retries(attempt_timeout_ms=100)
        sent = asyncio.create_task(sending.deliver(outgoing(), 1000, retries))
        for number in (1, 2):
            await until(lambda number=number: here["a"].asked + here["b"].asked == number)
            await here.clock.advance(100)
        assert (await sent).sure
        assert here["a"].asked + here["b"].asked == 3


async def test_a_doubtful_result_is_a_result() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        here["a"].next = [10, 11, 12]
        for _ in range(3):
            assert not (await sending.deliver(outgoing(), 1000, THREE)).sure
        assert here["a"].asked == 3


async def test_a_doubtful_result_goes_to_another_broker_if_asked_and_stays_if_none_is_better() -> (
    None
):
    eager = Retries(not_durable=True)
    async with world("a", "b") as here, delivery(here) as (sending, _):
        for name in "ab":
            here[name].next = [10]
        stored = await sending.deliver(outgoing(), 1000, eager)
        assert stored.sure
        assert (len(here["a"].taken), len(here["b"].taken)) in ((1, 2), (2, 1))
    async with world("a") as here, delivery(here) as (sending, _):
        here["a"].next = [10, 13]  # the second attempt is refused: the first still counts
        assert not (await sending.deliver(outgoing(), 1000, eager)).sure


async def test_a_queue_that_was_picked_is_tried_once_and_no_other() -> None:
    queue = MessageQueue(topic="t", broker_name="a", queue_id=1)
    async with world("a", "b") as here, delivery(here) as (sending, _):
        assert (await sending.deliver(outgoing(), 1000, THREE, lambda _: queue)).queue == queue
        here["a"].next = [2]
        with pytest.raises(RequestRejected):
            await sending.deliver(outgoing(), 1000, THREE, lambda _: queue)
        assert here["a"].asked == 2
        assert here["b"].asked == 0


async def test_a_broker_that_nobody_knows_is_not_waited_for() -> None:
    queue = MessageQueue(topic="t", broker_name="z", queue_id=1)
    async with world("a") as here, delivery(here) as (sending, _):
        with pytest.raises(NoRoute, match="'z' has no leader now"):
            await sending.deliver(outgoing(), 1000, THREE, lambda _: queue)


async def test_a_broker_that_is_not_there_is_followed_by_another() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        nobody = BrokerAddresses(cluster="c", broker_name="b", addresses={0: "127.0.0.1:1"})
        both = here.route("a")
        gone = here.route("a").queues[0]
        here.known.routes["t"] = TopicRoute(
            queues=(*both.queues, type(gone)(**{**_fields(gone), "broker_name": "b"})),
            brokers=(*both.brokers, nobody),
        )
        for _ in range(4):
            assert (await sending.deliver(outgoing(), 1000, THREE)).queue.broker_name == "a"
        queue = MessageQueue(topic="t", broker_name="b", queue_id=0)
        with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
            await turned(here.clock, sending.deliver(outgoing(), 1000, ONE, lambda _: queue))


def _fields(value: object) -> dict[str, object]:
    return {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]


async def test_no_answer_about_a_topic_in_time_is_an_error_that_names_it() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        with pytest.raises(NoRoute, match="'unknown'"):
            await sending.line("unknown", 1000)
        here.known.routes["TBW102"] = here.route("a")
        assert len((await sending.line("unknown", 1000)).queues) == 2


async def test_what_is_slow_or_fails_is_remembered() -> None:
    async with world("a", "b") as here, delivery(here, Variant.V5) as (sending, choice):
        assert choice.faults is not None
        for name in "ab":
            here[name].answers.clear()
        sent = asyncio.create_task(sending.deliver(outgoing(), 5000, THREE))
        await until(lambda: here["a"].asked + here["b"].asked == 1)
        slow = "a" if here["a"].asked else "b"
        await here.clock.advance(600)
        for name in "ab":
            here[name].answers.set()
        await sent
        assert not choice.faults.is_available(slow)
        other = "b" if slow == "a" else "a"
        here[other].next = [14]
        await sending.deliver(outgoing(), 5000, THREE)
        assert not choice.faults.is_reachable(other)


async def test_a_oneway_send_is_written_and_not_answered() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        await sending.post(outgoing(), 1000)
        queue = MessageQueue(topic="t", broker_name="a", queue_id=1)
        await sending.post(outgoing(), 1000, lambda _: queue)
        await until(lambda: here.taken == 2)
        assert here["a"].taken[1].queue_id == 1
        assert (await sending.deliver(outgoing(), 1000, ONE)).sure  # the connection is fine


async def test_a_send_that_is_given_up_waits_for_nothing() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        here["a"].answers.clear()
        sent = asyncio.create_task(sending.deliver(outgoing(), 1000, THREE))
        await here["a"].arrived.wait()
        sent.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sent
        peer = sending._caller.connected(here["a"].address)
        assert peer is not None
        here["a"].answers.set()
        assert (await sending.deliver(outgoing(), 1000, ONE)).sure
        assert peer.asking == 0


async def test_a_doubtful_result_in_a_picked_queue_is_not_sent_there_again() -> None:
    queue = MessageQueue(topic="t", broker_name="a", queue_id=1)
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here["a"].next = [10]
        eager = Retries(not_durable=True)
        assert not (await sending.deliver(outgoing(), 1000, eager, lambda _: queue)).sure
        assert (here["a"].asked, here["b"].asked) == (1, 0)


# Leaders that change

QUEUE = MessageQueue(topic="t", broker_name="g", queue_id=1)
LATER = RequestRejected(14, "no longer master")


async def test_a_picked_queue_waits_for_its_new_leader_and_no_other_gets_the_message() -> None:
    async with world("a", "b", "other") as here, delivery(here) as (sending, _):
        here.known.routes["t"] = here.route("other")
        here.led_by("g", "a", "b")
        assert (await sending.deliver(outgoing(), 1000, THREE, lambda _: QUEUE)).sure
        here.led_by("g", None, "a", "b")
        sent = asyncio.create_task(sending.deliver(outgoing(), 60_000, THREE, lambda _: QUEUE))
        await until(lambda: here["a"].asked == 2)
        asked = len(here.known.asked)
        await turned(here.clock, until_asked(here, asked + 4))
        here.led_by("g", "b", "a")
        stored = await turned(here.clock, waited(sent))
        assert stored.queue == QUEUE
        assert (len(here["b"].taken), here["b"].asked, here["other"].asked) == (1, 1, 0)


async def test_a_send_that_is_free_to_go_elsewhere_does_so_at_once() -> None:
    async with world("a", "b", "other") as here, delivery(here) as (sending, _):
        here.known.routes["t"] = here.route("other")
        here.led_by("g", "a", "b")
        here["a"].follows = LATER
        for _ in range(4):  # no time passes here
            stored = await sending.deliver(outgoing(), 1000, THREE)
            assert stored.queue.broker_name == "other"


@pytest.mark.parametrize("retries", [ONE, THREE])
async def test_the_leader_that_a_refusal_names_is_tried_at_once(retries: Retries) -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here.led_by("g", "a", "b")
        await sending.deliver(outgoing(), 1000, THREE, lambda _: QUEUE)
        # NameServers go on naming the old one.
        here["a"].follows = RequestRejected(14, f"not the leader leader={here['b'].address}")
        here["b"].follows = None
        for _ in range(2):
            await sending.deliver(outgoing(), 1000, retries, lambda _: QUEUE)
        assert len(here["b"].taken) == 2
        assert here["a"].asked == 2  # the second one knew
        here.known.routes["t"] = TopicRoute()
        here.led_by("g", "a", "b")  # and they are believed when they have news
        here["a"].follows, here["b"].follows = None, RequestRejected(14, "not the leader")
        await turned(here.clock, sending.deliver(outgoing(), 60_000, THREE, lambda _: QUEUE))
        assert len(here["a"].taken) == 2


async def test_two_that_name_each_other_are_not_asked_without_end() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here.led_by("g", "a", "b")
        for one, other in ("ab", "ba"):
            here[one].follows = RequestRejected(14, f"not me leader={here[other].address}")
        with pytest.raises(RequestRejected) as refused:
            await turned(here.clock, sending.deliver(outgoing(), 3000, THREE))
        # A round of both for each pause: 0, 100, 200 and then 400 ms each time.
        assert here["a"].asked + here["b"].asked <= 20
        (note,) = refused.value.__notes__
        assert len(note.splitlines()) <= 20


async def test_a_topic_none_of_whose_brokers_leads_waits_for_one_that_does() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here.known.routes["t"] = TopicRoute()
        here.led_by("g", None, "a", "b")
        sent = asyncio.create_task(sending.deliver(outgoing(), 60_000, THREE))
        await turned(here.clock, until_asked(here, 4))
        here.led_by("g", "b", "a")
        assert (await turned(here.clock, waited(sent))).queue.broker_name == "g"
        here.led_by("g", None, "a", "b")
        with pytest.raises((NoRoute, RequestRejected)):
            await turned(here.clock, sending.deliver(outgoing(), 1000, THREE))


async def test_too_few_replicas_are_waited_for_elsewhere_first() -> None:
    few = RequestRejected(1, "in-sync replicas not enough: 1 of 2")
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here["a"].next = [few] * 50
        for _ in range(4):
            assert (await sending.deliver(outgoing(), 1000, THREE)).queue.broker_name == "b"
    async with world("a") as here, delivery(here) as (sending, _):
        here["a"].next = [few] * 5
        assert (await turned(here.clock, sending.deliver(outgoing(), 60_000, ONE))).sure
        assert here["a"].asked == 6


async def test_with_one_attempt_what_may_be_stored_is_not_sent_again() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        for fate in (LOST, LATER):
            here["a"].next = [fate]
            with pytest.raises((ConnectionLost, RequestRejected)):
                await sending.deliver(outgoing(), 1000, ONE)
        assert here["a"].asked == 2


async def test_many_waiting_sends_share_one_question() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here.led_by("g", "a", "b")
        await sending.deliver(outgoing(), 1000, THREE, lambda _: QUEUE)
        asked = len(here.known.asked)
        here["a"].next = [LATER] * 2000
        sent = asyncio.gather(
            *(sending.deliver(outgoing(), 60_000, THREE, lambda _: QUEUE) for _ in range(2000))
        )
        await until(lambda: here["a"].asked >= 2001)
        assert len(here.known.asked) <= asked + 2
        await turned(here.clock, waited(sent))
        assert len(here["a"].taken) == 2001


async def test_one_answer_moves_every_topic_of_the_broker() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here.known.routes.clear()
        for topic in ("t", "u"):
            here.led_by("g", "a", "b", topic=topic)
            await sending.deliver(Outgoing(Message(topic, b"x"), "0A" * 16, 5, 100), 1000, THREE)
        for topic in ("t", "u"):
            here.led_by("g", "b", "a", topic=topic)
        await sending.deliver(outgoing(), 1000, THREE)
        asked = list(here.known.asked)
        await sending.deliver(Outgoing(Message("u", b"x"), "0A" * 16, 5, 100), 1000, ONE)
        assert here.known.asked == asked
        assert (len(here["b"].taken), here["a"].asked) == (2, 3)


async def test_a_name_that_was_avoided_is_not_when_another_leads_it() -> None:
    async with world("a", "b") as here, delivery(here, Variant.V5) as (sending, choice):
        here.known.routes["t"] = TopicRoute()
        here.led_by("g", "a", "b")
        await sending.deliver(outgoing(), 1000, THREE)
        here.led_by("g", "b", "a")
        await sending.deliver(outgoing(), 1000, THREE)
        assert choice.faults is not None
        assert choice.faults.is_available("g")


async def test_a_broker_that_says_nothing_and_leads_no_more_is_not_waited_for() -> None:
    async with world("a", "b") as here, delivery(here) as (sending, _):
        here.known.routes.clear()
        here.led_by("g", "a", "b")
        await sending.deliver(outgoing(), 1000, THREE)
        here["a"].next = [SILENT]
        sent = asyncio.create_task(sending.deliver(outgoing(), 600_000, THREE))
        await until(lambda: here["a"].asked == 2)
        asked = len(here.known.asked)
        await turned(here.clock, until_asked(here, asked + 3))
        assert not sent.done()  # it leads, as far as is known: it is waited for
        here.led_by("g", "b", "a")
        await turned(here.clock, waited(sent), step_ms=50)
        assert here.clock.monotonic_ms() < 600_000
        assert len(here["b"].taken) == 1


async def test_a_broker_that_answers_others_is_waited_for() -> None:
    async with world("a") as here, delivery(here) as (sending, _):
        here["a"].next = [SILENT]
        sent = asyncio.create_task(sending.deliver(outgoing(), 600_000, THREE))
        await until(lambda: here["a"].asked == 1)
        asked = len(here.known.asked)
        for _ in range(5):
            await sending.deliver(outgoing(), 1000, THREE)
            await here.clock.advance(SLOW_MS)
        assert not sent.done()
        assert len(here.known.asked) == asked
        sent.cancel()


async def until_asked(here: World, times: int) -> None:
    await until(lambda: len(here.known.asked) >= times)


async def waited(sent: asyncio.Future[T]) -> T:
    return await sent
