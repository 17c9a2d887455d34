"""The checker names each anomaly that is planted into a clean history, and no other history's."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from tests.testing.support.stories import FAIL, INFO, INVOKE, OK, QUEUES, Story, change, drop, find

from rocketpipe.testing.histories.checker import HistoryBroken, assert_clean, check
from rocketpipe.testing.histories.history import What


def clean(seed: int = 1) -> Story:
    """All that may happen, and nothing that must not."""
    chance = random.Random(seed)
    story = Story()
    places: dict[str, tuple[str, int]] = {}
    story.join("b1", "news", broadcast=True)
    for number in range(200):
        queue = QUEUES[number % 4]
        places[f"m{number}"] = story.send(f"m{number}", queue, key=f"k{number % 4}", tag="x")
    # A send whose end is unknown, and that is sent again: two copies.
    story.add("p", What.SEND, INVOKE, id="twice", topic="t", crc=5, tag="x")
    story.add("p", What.SEND, INFO, id="twice", topic="t")
    lost_copy = QUEUES[0], 50
    story._sizes[QUEUES[0]] += 1
    places["twice"] = story.send("twice", QUEUES[0], crc=5, tag="x")
    crc = {"twice": 5}

    def handle(who: str, group: str, message_id: str, **facts: Any) -> None:
        place = facts.pop("place", places[message_id])
        if message_id in crc:
            facts["crc"] = crc[message_id]
        story.handle(who, group, message_id, place, tag="x", **facts)

    # Ordered, by two members; the first is killed in a handler.
    story.join("o1", "ordered", ordered=True)
    story.join("o2", "ordered", ordered=True)
    story.share("o1", "ordered", *QUEUES[:2])
    story.share("o2", "ordered", *QUEUES[2:])
    in_order = sorted(places, key=lambda each: places[each][1])
    mine = [each for each in in_order if places[each][0] in QUEUES[:2]]
    for message_id in mine[:40]:
        handle("o1", "ordered", message_id)
    story.begin("o1", "ordered", mine[40], places[mine[40]], tag="x")
    story.add("o1", What.KILL, OK)
    story.share("o2", "ordered", *QUEUES)
    for message_id in [*mine[38:], *(each for each in in_order if each not in mine)]:
        if message_id == "twice":
            handle("o2", "ordered", "twice", place=lost_copy)
        handle("o2", "ordered", message_id)
    # Concurrent: a queue changes hands, one fails and comes again, a broker is killed.
    story.join("c1", "many", max_retries=2)
    story.share("c1", "many", *QUEUES)
    shuffled = [*places]
    chance.shuffle(shuffled)
    for message_id in shuffled:
        handle("c1", "many", message_id)
    story.share("c1", "many", *QUEUES[1:])
    story.join("c2", "many", max_retries=2)
    story.share("c2", "many", QUEUES[0])
    handle("c2", "many", "m0")
    story.add("nemesis", What.FAULT, INVOKE, name="broker killed")
    story.add("nemesis", What.FAULT, OK, name="broker killed")
    handle("c1", "many", "m1")
    dead = story.send("dead", QUEUES[1], tag="x")
    story.handle("c1", "many", "dead", dead, FAIL, tag="x")
    for times in (1, 2):
        again = "%RETRY%many/a/0", times
        story.handle("c1", "many", "dead", again, FAIL, tag="x", times=times)
    story.join("u", "undertaker", "%DLQ%many")
    story.handle("u", "undertaker", "dead", ("%DLQ%many/a/0", 0), tag="x", topic="%DLQ%many")
    story.handle("o2", "ordered", "dead", dead, tag="x")
    # Everybody hears the news.
    for message_id in places:
        handle("b1", "news", message_id)
    story.handle("b1", "news", "dead", dead, tag="x")
    return story


def plant_lost(story: Story) -> None:
    drop(story, what=What.HANDLE, group="many", id="m77")


def plant_missed(story: Story) -> None:
    drop(story, what=What.HANDLE, group="news", id="m77")


def plant_phantom(story: Story) -> None:
    story.handle("c1", "many", "ghost", (QUEUES[1], 900), tag="x")


def plant_refused(story: Story) -> None:
    change(story, find(story, what=What.SEND, id="m9", phase=OK), phase=FAIL, queue="", offset=-1)


def plant_altered_body(story: Story) -> None:
    change(story, find(story, what=What.HANDLE, id="m9"), crc=70_000)


def plant_altered_tag(story: Story) -> None:
    change(story, find(story, what=What.HANDLE, id="m9"), tag="y")


def plant_unwanted(story: Story) -> None:
    change(story, find(story, what=What.JOIN, group="many"), tags=("z",))
    change(story, find(story, what=What.JOIN, who="c2"), tags=("z",))


def plant_early(story: Story) -> None:
    change(story, find(story, what=What.SEND, id="m9"), due_ns=10**12)


def plant_stored_twice(story: Story) -> None:
    story.handle("c1", "many", "m9", (QUEUES[1], 901), tag="x")


def plant_two_at_one_place(story: Story) -> None:
    change(story, find(story, what=What.SEND, id="m9", phase=OK), offset=0)


def plant_offset_went_back(story: Story) -> None:
    for at, event in enumerate(story.events):
        if event.id == "m180" and event.queue:
            change(story, at, offset=-7)


def plant_repeated_by_the_same(story: Story) -> None:
    at = find(story, what=What.HANDLE, who="c1", group="many", id="m5", phase=OK)
    again = story.events[at - 1 : at + 1]
    story.events[at + 1 : at + 1] = [
        msgspec.structs.replace(event, at_ns=story.events[at].at_ns + 1 + n)
        for n, event in enumerate(again)
    ]


def plant_repeated_after_a_clean_end(story: Story) -> None:
    story.leave("c1", "many")
    story.join("c3", "many", max_retries=2)
    story.share("c3", "many", *QUEUES[1:])
    story.handle("c3", "many", "dead", ("t/a/1", 50), tag="x")
    story.leave("c3", "many")
    story.join("c4", "many", max_retries=2)
    story.share("c4", "many", *QUEUES[1:])
    story.handle("c4", "many", "dead", ("t/a/1", 50), tag="x")


def plant_repeated_in_order(story: Story) -> None:
    story.handle("o2", "ordered", "m0", (QUEUES[0], 0), tag="x")
    drop(story, what=What.FAULT)


def plant_repeated_news(story: Story) -> None:
    story.handle("b1", "news", "m3", (QUEUES[3], 0), tag="x")


def plant_stranger(story: Story) -> None:
    story.handle("c2", "many", "m1", (QUEUES[1], 0), tag="x")


def plant_overlap(story: Story) -> None:
    at = find(story, what=What.HANDLE, who="o1", id="m4", phase=OK)
    later = find(story, what=What.HANDLE, who="o1", id="m8", phase=INVOKE)
    change(story, at, at_ns=story.events[later].at_ns + 1)


def plant_overlap_of_the_living(story: Story) -> None:
    drop(story, what=What.KILL)


def plant_out_of_order(story: Story) -> None:
    at = find(story, what=What.HANDLE, who="o1", id="m0", phase=INVOKE)
    swap = find(story, what=What.HANDLE, who="o1", id="m4", phase=INVOKE)
    first, second = story.events[at : at + 2], story.events[swap : swap + 2]
    for place, events in ((swap, first), (at, second)):
        for n, event in enumerate(events):
            moment = 10 * (place + n + 1)
            story.events[place + n] = msgspec.structs.replace(event, at_ns=moment)


def plant_skipped(story: Story) -> None:
    drop(story, what=What.HANDLE, group="ordered", id="m100")


def plant_not_dead(story: Story) -> None:
    drop(story, what=What.HANDLE, group="undertaker")


def plant_dead_too_soon(story: Story) -> None:
    drop(story, what=What.HANDLE, group="many", id="dead", times=2)


def plant_dead_alive(story: Story) -> None:
    story.handle("u", "undertaker", "m3", ("%DLQ%many/a/0", 1), tag="x", topic="%DLQ%many")


PLANTED: list[tuple[Callable[[Story], None], str]] = [
    (plant_lost, "lost"),
    (plant_missed, "missed"),
    (plant_phantom, "phantom"),
    (plant_refused, "refused"),
    (plant_altered_body, "altered"),
    (plant_altered_tag, "altered"),
    (plant_unwanted, "unwanted"),
    (plant_early, "early"),
    (plant_stored_twice, "stored twice"),
    (plant_two_at_one_place, "two at one place"),
    (plant_offset_went_back, "offset went back"),
    (plant_repeated_by_the_same, "repeated"),
    (plant_repeated_after_a_clean_end, "repeated"),
    (plant_repeated_in_order, "repeated"),
    (plant_repeated_news, "repeated"),
    (plant_stranger, "stranger"),
    (plant_overlap, "overlap"),
    (plant_overlap_of_the_living, "overlap"),
    (plant_out_of_order, "out of order"),
    (plant_skipped, "out of order"),
    (plant_not_dead, "not dead"),
    (plant_dead_too_soon, "dead"),
    (plant_dead_alive, "dead"),
]


@pytest.mark.parametrize("seed", range(3))
def test_a_clean_history_has_no_anomaly(seed: int) -> None:
    story = clean(seed)
    assert [str(anomaly) for anomaly in check(story.events)] == []
    assert_clean(story.events)


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_was_planted_is_named(plant: Callable[[Story], None], kind: str) -> None:
    story = clean()
    plant(story)
    story.events.sort(key=lambda event: event.at_ns)
    assert kind in story.kinds()
    with pytest.raises(HistoryBroken, match=f"{kind}: "):
        assert_clean(story.events)


def test_every_kind_of_anomaly_that_is_promised_is_planted() -> None:
    from rocketpipe.testing.histories import checker

    assert checker.__doc__ is not None
    table = checker.__doc__.split("\n\n")[1]
    promised = {line.strip()[:17].strip() for line in table.splitlines()}
    assert {kind for _, kind in PLANTED} == promised


# What has a cause is no anomaly.


def two_members() -> tuple[Story, tuple[str, int]]:
    """One has handled the only message."""
    story = Story()
    story.join("a", "g")
    story.share("a", "g", QUEUES[0])
    place = story.send("1", QUEUES[0])
    story.handle("a", "g", "1", place)
    return story, place


def test_whoever_lost_its_queue_and_got_it_back_may_get_its_messages_again() -> None:
    story, place = two_members()
    story.share("a", "g")
    story.share("a", "g", QUEUES[0])
    story.handle("a", "g", "1", place)
    assert story.kinds() == set()
    story.share("a", "g", QUEUES[0])  # the same share as before: no cause
    story.handle("a", "g", "1", place)
    assert story.kinds() == {"repeated"}


def test_two_who_have_a_queue_at_the_same_time_may_both_get_a_message() -> None:
    story, place = two_members()
    story.join("b", "g")
    story.share("b", "g", QUEUES[0])
    story.handle("b", "g", "1", place)
    assert story.kinds() == set()


def test_what_one_that_closed_well_had_handled_does_not_come_to_the_next() -> None:
    story, place = two_members()
    story.leave("a", "g")
    story.join("b", "g")
    story.share("b", "g", QUEUES[0])
    story.handle("b", "g", "1", place)
    assert story.kinds() == {"repeated"}


def test_a_third_that_had_the_queue_in_between_is_a_cause() -> None:
    story, place = two_members()
    story.join("c", "g")
    story.share("c", "g", QUEUES[0])
    story.leave("a", "g")
    story.share("c", "g")
    story.join("b", "g")
    story.share("b", "g", QUEUES[0])
    story.handle("b", "g", "1", place)
    assert story.kinds() == set()


@pytest.mark.parametrize(
    ("facts", "excused"),
    [
        ({}, True),
        ({"broker": "a"}, True),
        ({"broker": "b"}, False),
        ({"repeats": False}, False),
    ],
)
def test_a_fault_is_a_cause_if_it_says_so(facts: dict[str, Any], excused: bool) -> None:
    story, place = two_members()
    story.add("nemesis", What.FAULT, INVOKE, name="gone", **facts)
    story.add("nemesis", What.FAULT, OK, name="gone", **facts)
    story.handle("a", "g", "1", place)
    assert story.kinds() == (set() if excused else {"repeated"})


def test_a_fault_that_is_over_before_a_message_came_is_no_cause() -> None:
    story = Story()
    story.add("nemesis", What.FAULT, INVOKE, name="gone")
    story.add("nemesis", What.FAULT, OK, name="gone")
    story.join("a", "g")
    story.share("a", "g", QUEUES[0])
    place = story.send("1", QUEUES[0])
    story.handle("a", "g", "1", place)
    story.handle("a", "g", "1", place)
    assert story.kinds() == {"repeated"}


def test_the_dead_are_a_cause_and_what_they_had_in_hand_is_not_lost_by_another() -> None:
    story, place = two_members()
    story.add("a", What.KILL, OK)
    story.join("b", "g")
    story.share("b", "g", QUEUES[0])
    story.handle("b", "g", "1", place)
    assert story.kinds() == set()


def test_a_copy_needs_a_send_with_an_unknown_end_or_a_fault_while_it_went_on() -> None:
    story, _ = two_members()
    story.add("p", What.SEND, INVOKE, id="2", topic="t", crc=1)
    story.add("nemesis", What.FAULT, INVOKE, name="broker killed")
    story.add("p", What.SEND, OK, id="2", topic="t", queue=QUEUES[0], offset=2)
    story.handle("a", "g", "2", (QUEUES[0], 1), crc=1)
    story.handle("a", "g", "2", (QUEUES[0], 2), crc=1)
    assert story.kinds() == set()
    story.handle("a", "g", "2", (QUEUES[0], 3), crc=1)
    assert story.kinds() == {"stored twice"}


def test_before_everything_was_drained_nothing_counts_as_lost() -> None:
    story = Story()
    story.join("a", "g")
    story.send("1", QUEUES[0])
    assert story.kinds(drained=False) == set()
    assert story.kinds() == {"lost"}
