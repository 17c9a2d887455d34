"""Who gets which queue: RocketMQ's answers, and what must hold of any answer."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocketpipe.client.consumer.group.assignment import (
    AVERAGE,
    CIRCLE,
    AssignmentFailed,
    Rooms,
    Strategy,
    configured,
    consistent_hash,
    ids_in_order,
    in_order,
    machine_room,
    md5_hash,
    nearest_room,
    room_nearby,
    room_of_broker,
)
from rocketpipe.model.route import MessageQueue
from rocketpipe.record.hot import java_hash

GOLDEN = json.loads((Path(__file__).parent / "golden" / "shares.json").read_text())["cases"]


def queues_of(topic: str, brokers: dict[str, int]) -> list[MessageQueue]:
    return in_order(
        MessageQueue(topic=topic, broker_name=name, queue_id=queue_id)
        for name, count in brokers.items()
        for queue_id in range(count)
    )


def shares(
    strategy: Strategy, queues: list[MessageQueue], members: list[str]
) -> list[list[MessageQueue]]:
    return [strategy(member, queues, members) for member in members]


def numbers(strategy: Strategy, queues: int, members: int) -> list[list[int]]:
    ids = [f"c{number}" for number in range(members)]
    found = shares(strategy, queues_of("t", {"a": queues}), ids)
    return [[queue.queue_id for queue in share] for share in found]


# What RocketMQ answers

GOLDEN_ROOMS = Rooms(
    of_queue=lambda queue: queue.broker_name.split("@")[0],
    of_member=lambda member: f"r{java_hash(member) & 3}",
)
INNER = {"AVG": AVERAGE, "AVG_BY_CIRCLE": CIRCLE, "CONSISTENT_HASH": consistent_hash()}


def strategy_of(case: dict[str, Any]) -> Strategy:
    name = case["strategy"]
    if name.startswith("MACHINE_ROOM_NEARBY-"):
        return room_nearby(INNER[name.partition("-")[2]], GOLDEN_ROOMS)
    if name == "MACHINE_ROOM_LEGACY":
        return machine_room(case["rooms"], legacy=True)
    if name == "MACHINE_ROOM":
        return machine_room(case["rooms"])
    if name == "CONSISTENT_HASH":
        return consistent_hash(case["nodes"], java_hash if "hash" in case else md5_hash)
    return INNER[name]


def test_every_share_is_what_rocketmq_gives() -> None:
    tried: Counter[str] = Counter()
    for case in GOLDEN:
        queues = queues_of(case["topic"], case["brokers"])
        assert ids_in_order(reversed(case["ids"])) == case["ids"]
        found = shares(strategy_of(case), queues, case["ids"])
        assert found == [[queues[at] for at in share] for share in case["shares"]], case
        tried[case["strategy"]] += 1
    assert len(tried) == 8
    assert min(tried.values()) >= 30


@pytest.mark.parametrize(
    ("strategy", "name"),
    [
        (AVERAGE, "AVG"),
        (CIRCLE, "AVG_BY_CIRCLE"),
        (configured([]), "CONFIG"),
        (machine_room({"r"}), "MACHINE_ROOM"),
        (consistent_hash(), "CONSISTENT_HASH"),
        (room_nearby(CIRCLE, GOLDEN_ROOMS), "MACHINE_ROOM_NEARBY-AVG_BY_CIRCLE"),
    ],
)
def test_strategies_have_the_names_that_brokers_know(strategy: Strategy, name: str) -> None:
    assert strategy.name == name


@pytest.mark.parametrize(
    ("queues", "members", "blocks", "dealt"),
    [
        (
            10,
            4,
            [[0, 1, 2], [3, 4, 5], [6, 7], [8, 9]],
            [[0, 4, 8], [1, 5, 9], [2, 6], [3, 7]],
        ),
        (6, 4, [[0, 1], [2, 3], [4], [5]], [[0, 4], [1, 5], [2], [3]]),
        (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]], [[0, 3, 6], [1, 4, 7], [2, 5]]),
        (3, 5, [[0], [1], [2], [], []], [[0], [1], [2], [], []]),
        (
            16,
            5,
            [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 11, 12], [13, 14, 15]],
            [[0, 5, 10, 15], [1, 6, 11], [2, 7, 12], [3, 8, 13], [4, 9, 14]],
        ),
    ],
)
def test_the_two_averages_on_the_worked_examples(
    queues: int, members: int, blocks: list[list[int]], dealt: list[list[int]]
) -> None:
    assert numbers(AVERAGE, queues, members) == blocks
    assert numbers(CIRCLE, queues, members) == dealt


def test_consistent_hash_on_the_worked_example() -> None:
    queues = queues_of("TopicTest", {"broker-a": 8})
    found = shares(consistent_hash(), queues, ["10.0.0.1@1", "10.0.0.2@1", "10.0.0.3@1"])
    assert [[queue.queue_id for queue in share] for share in found] == [
        [1, 4, 5],
        [0, 6, 7],
        [2, 3],
    ]


def test_old_fleets_share_out_the_wrong_queues_and_we_can_join_them() -> None:
    queues = queues_of("t", {"room1@a": 3, "room2@b": 3})
    *a, b0, b1, b2 = queues
    assert shares(machine_room({"room2"}), queues, ["c1", "c2"]) == [[b0, b2], [b1]]
    legacy = machine_room({"room2"}, legacy=True)
    assert shares(legacy, queues, ["c1", "c2"]) == [[a[0], b2], [a[1]]]


def test_configured_queues_are_given_whoever_asks() -> None:
    queues = queues_of("t", {"a": 3})
    strategy = configured(queues[:2])
    assert strategy("nobody", queues, ["somebody"]) == queues[:2]
    assert strategy("somebody", [], []) == queues[:2]


def test_java_sorts_by_utf_16_units() -> None:
    assert ids_in_order(["\uffee", "\U0001f680", "b", "B"]) == ["B", "b", "\U0001f680", "\uffee"]
    rocket, fullwidth = (
        MessageQueue(topic="t", broker_name=name, queue_id=0) for name in ("\U0001f680", "\uffee")
    )
    assert in_order([fullwidth, rocket]) == [rocket, fullwidth]
    ten, nine = (MessageQueue(topic="t", broker_name="a", queue_id=number) for number in (10, 9))
    assert in_order([ten, nine]) == [nine, ten]


# What must hold of any answer

ROOMS = Rooms(room_of_broker, lambda member: member.partition("-")[0])
ROOM_NAMES = ["berlin", "cairo", "delhi", "lima"]
MAP = {name: number * number for number, name in enumerate(ROOM_NAMES)}


def apart(left: str, right: str) -> float:
    return abs(MAP[left] - MAP[right])


INNERS = [AVERAGE, CIRCLE, consistent_hash(), consistent_hash(1)]
PARTITIONS = [
    *INNERS,
    machine_room(ROOM_NAMES),
    *(room_nearby(inner, ROOMS) for inner in INNERS),
    *(nearest_room(inner, ROOMS, apart) for inner in INNERS),
]
rooms = st.sampled_from(ROOM_NAMES)
groups = st.lists(
    st.builds("{}-{}".format, rooms, st.integers(0, 30)), min_size=1, max_size=12, unique=True
)
topics = st.dictionaries(
    st.builds("{}@broker{}".format, rooms, st.integers(0, 3)), st.integers(1, 8), min_size=1
)


@pytest.mark.parametrize("strategy", PARTITIONS, ids=lambda strategy: strategy.name)
@settings(max_examples=40)
@given(members=groups, brokers=topics, seed=st.randoms())
def test_each_queue_goes_to_exactly_one_member(
    strategy: Strategy, members: list[str], brokers: dict[str, int], seed: Any
) -> None:
    queues, ids = queues_of("t", brokers), ids_in_order(members)
    given_out = [queue for share in shares(strategy, queues, ids) for queue in share]
    assert sorted(given_out) == sorted(queues)
    # Whoever asks and however the answers of brokers and NameServers were ordered.
    seed.shuffle(members)
    mixed = queues_of("t", dict(sorted(brokers.items(), reverse=True)))
    assert shares(strategy, in_order(mixed), ids_in_order(members)) == shares(strategy, queues, ids)


@given(members=groups, brokers=topics)
def test_the_averages_differ_by_one_at_most(members: list[str], brokers: dict[str, int]) -> None:
    queues, ids = queues_of("t", brokers), ids_in_order(members)
    for strategy in (AVERAGE, CIRCLE, machine_room(ROOM_NAMES)):
        sizes = [len(share) for share in shares(strategy, queues, ids)]
        assert max(sizes) - min(sizes) <= 1


@given(members=groups, brokers=topics)
def test_a_member_that_leaves_a_ring_moves_only_its_own_queues(
    members: list[str], brokers: dict[str, int]
) -> None:
    queues, ids = queues_of("t", brokers), ids_in_order(members)
    gone, *left = ids
    strategy = consistent_hash()
    for member in left:
        before = strategy(member, queues, ids)
        assert set(before) <= set(strategy(member, queues, left))
    assert gone not in left


@given(members=groups, brokers=topics)
def test_orphaned_queues_go_to_the_nearest_room_and_no_further(
    members: list[str], brokers: dict[str, int]
) -> None:
    queues, ids = queues_of("t", brokers), ids_in_order(members)
    manned = {ROOMS.of_member(member) or "" for member in ids}
    for member in ids:
        room = ROOMS.of_member(member) or ""
        for queue in nearest_room(CIRCLE, ROOMS, apart)(member, queues, ids):
            home = room_of_broker(queue) or ""
            assert apart(home, room) == min(apart(home, other) for other in manned)


def test_a_room_without_members_is_read_from_next_door_not_from_everywhere() -> None:
    queues = queues_of("t", {"berlin@a": 2, "cairo@b": 4})
    ids = ["berlin-1", "berlin-2", "lima-1"]
    everybody = shares(room_nearby(AVERAGE, ROOMS), queues, ids)
    assert [len(share) for share in everybody] == [3, 2, 1]
    nearest = shares(nearest_room(AVERAGE, ROOMS, apart), queues, ids)
    assert [len(share) for share in nearest] == [3, 3, 0]
    # Of two that are equally near, the first by name.
    level = nearest_room(AVERAGE, ROOMS, lambda left, right: float(left != right))
    assert [len(share) for share in shares(level, queues, ["delhi-1", "lima-1"])] == [6, 0]


# What cannot be answered

EVERY = [AVERAGE, CIRCLE, machine_room({"r"}), consistent_hash(), PARTITIONS[5], PARTITIONS[-1]]


@pytest.mark.parametrize("strategy", EVERY, ids=lambda strategy: strategy.name)
def test_nobody_nothing_and_no_member_are_errors_and_a_stranger_gets_nothing(
    strategy: Strategy,
) -> None:
    queues = queues_of("t", {"berlin@a": 2})
    with pytest.raises(AssignmentFailed, match="id is empty"):
        strategy("", queues, ["berlin-1"])
    with pytest.raises(AssignmentFailed, match="no queues"):
        strategy("berlin-1", [], ["berlin-1"])
    with pytest.raises(AssignmentFailed, match="no members"):
        strategy("berlin-1", queues, [])
    assert strategy("stranger", queues, ["berlin-1"]) == []


def test_a_room_that_cannot_be_told_is_an_error_that_says_whose() -> None:
    queues = queues_of("t", {"plain": 1})
    nowhere = Rooms(lambda queue: "berlin", lambda member: None)
    for wrap in (room_nearby, lambda inner, where: nearest_room(inner, where, apart)):
        with pytest.raises(AssignmentFailed, match="broker 'plain'"):
            wrap(AVERAGE, ROOMS)("berlin-1", queues, ["berlin-1"])
        with pytest.raises(AssignmentFailed, match="member 'm'"):
            wrap(AVERAGE, nowhere)("m", queues, ["m"])


def test_a_distance_must_be_one() -> None:
    queues = queues_of("t", {"cairo@a": 1})
    strategy = nearest_room(AVERAGE, ROOMS, lambda left, right: float("nan"))
    with pytest.raises(AssignmentFailed, match="from room 'cairo' to room 'lima'"):
        strategy("lima-1", queues, ["lima-1"])


def test_a_ring_of_fewer_than_no_nodes_is_refused() -> None:
    with pytest.raises(AssignmentFailed, match="-1 virtual nodes"):
        consistent_hash(-1)
    assert numbers(consistent_hash(0), 4, 2) == [[], []]
