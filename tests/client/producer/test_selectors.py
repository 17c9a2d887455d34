"""Which queue a sender chooses."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from rocketpipe.client.producer.selectors import (
    AtRandom,
    MachineRooms,
    by_hash,
    java_hash_of,
    pick_of,
    room_of,
)
from rocketpipe.errors import MessageRefused, NoRoute
from rocketpipe.model.message import Message
from rocketpipe.model.route import MessageQueue

MESSAGE = Message("t", b"x")


def queues(*brokers: str, each: int = 4) -> list[MessageQueue]:
    return [
        MessageQueue(topic="t", broker_name=name, queue_id=number)
        for name in brokers
        for number in range(each)
    ]


@pytest.mark.parametrize(
    ("value", "hashed"),
    [
        ("", 0),
        ("order-1", -1207111310),
        ("polygenelubricants", -(1 << 31)),  # known for it
        ("é😀", 1996812),
        (0, 0),
        (7, 7),
        (-7, -7),
        (-(1 << 31), -(1 << 31)),
        (1 << 31, -(1 << 31)),
        ((1 << 32) + 5, 4),
        (-(1 << 40), -256),
        ((1 << 63) - 1, -(1 << 31)),
        (True, 1231),
        (False, 1237),
    ],
)
def test_hashes_are_javas(value: str | int, hashed: int) -> None:
    assert java_hash_of(value) == hashed


@pytest.mark.parametrize(("value", "chosen"), [("polygenelubricants", 2), (-7, 1), (7, 1), (6, 0)])
def test_negative_hashes_choose_as_javas_remainder_does(value: str | int, chosen: int) -> None:
    assert by_hash(queues("a", each=3), MESSAGE, value).queue_id == chosen


def test_what_has_no_hash_in_java_is_refused_with_the_way_out() -> None:
    with pytest.raises(TypeError, match=r"not float: str\(\) makes it one"):
        by_hash(QUEUES, MESSAGE, 1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="wider than 64 bits"):
        by_hash(QUEUES, MESSAGE, 1 << 63)


QUEUES = queues("a")


def test_each_orders_messages_go_to_one_queue() -> None:
    taken: dict[int, set[int]] = {}
    for number in range(100):
        order = number % 10
        queue = by_hash(QUEUES, Message("t", b"x", tags=f"Tag{'ABCDE'[number % 5]}"), order)
        taken.setdefault(order, set()).add(queue.queue_id)
    assert taken == {order: {order % 4} for order in range(10)}


def test_chance_takes_every_queue() -> None:
    select = AtRandom(random.Random(1))
    spread = Counter(select(QUEUES, MESSAGE, None) for _ in range(400))
    assert len(spread) == 4
    assert min(spread.values()) > 50


def test_rooms_go_round_among_their_own_queues() -> None:
    select = MachineRooms(["oslo", "bergen"])
    held = queues("oslo@a", "bergen@b", "kiel@c", "d", each=2)
    taken = [select(held, MESSAGE, None) for _ in range(8)]
    assert Counter(taken) == dict.fromkeys(queues("oslo@a", "bergen@b", each=2), 2)


def test_a_topic_in_none_of_the_rooms_says_where_it_is() -> None:
    with pytest.raises(NoRoute, match=r"no broker in rooms \['oslo'\].*'kiel@c'"):
        MachineRooms("oslo")(queues("kiel@c"), MESSAGE, None)


@pytest.mark.parametrize("rooms", [[], [""], ["a@b"]])
def test_rooms_without_a_name_are_refused(rooms: list[str]) -> None:
    with pytest.raises(ValueError, match="without '@'"):
        MachineRooms(rooms)


def test_a_brokers_name_may_say_its_room() -> None:
    assert room_of("oslo@a@b") == "oslo"
    assert room_of("a") is None
    assert room_of("@a") is None


def test_a_sender_may_leave_the_queue_open_name_it_or_choose_it() -> None:
    assert pick_of(MESSAGE, None, None, None) is None
    named = pick_of(MESSAGE, QUEUES[2], None, None)
    assert named is not None
    assert named([]) == QUEUES[2]
    hashed = pick_of(MESSAGE, None, 3, None)
    assert hashed is not None
    assert hashed(QUEUES) == QUEUES[3]

    def last(held: Any, message: Message, order_by: object) -> MessageQueue:
        assert (message, order_by) == (MESSAGE, "by")
        queue: MessageQueue = held[-1]
        return queue

    chosen = pick_of(MESSAGE, None, "by", last)
    assert chosen is not None
    assert chosen(QUEUES) == QUEUES[3]


def test_contradictions_are_refused() -> None:
    with pytest.raises(TypeError, match="nothing to order by"):
        pick_of(MESSAGE, QUEUES[0], "x", None)
    with pytest.raises(MessageRefused, match="a queue of topic 't'"):
        pick_of(Message("u", b"x"), QUEUES[0], None, None)
    stray = pick_of(MESSAGE, None, None, lambda *_: queues("z")[0])
    assert stray is not None
    with pytest.raises(ValueError, match="not one of those"):
        stray(QUEUES)


def test_a_queue_is_no_number() -> None:
    with pytest.raises(TypeError, match="queue 1 is no queue: give a MessageQueue"):
        pick_of(Message("t", b"x"), 1, None, None)
