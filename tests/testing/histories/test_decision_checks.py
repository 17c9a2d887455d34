"""What is planted against a decision is named, and what nobody knows for sure is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.testing.support.stories import FAIL, INFO, INVOKE, OK, QUEUES, Story, change, drop, find

from rocketpipe.testing.histories import decision_checks
from rocketpipe.testing.histories.checker import HistoryBroken, assert_clean
from rocketpipe.testing.histories.history import Phase, What

RETRY = "%RETRY%pop_t/a/0"
#: Longer than any of these histories.
LATER = 10**9


class Fated(Story):
    """With decisions."""

    def half(self, message_id: str, end: Phase = OK) -> None:
        self.sent(message_id, end, half=True)

    def sent(self, message_id: str, end: Phase = OK, **facts: Any) -> None:
        """A send that does not say where it went."""
        self.add("p", What.SEND, INVOKE, id=message_id, topic="t", **facts)
        self.add("p", What.SEND, end, id=message_id, topic="t")

    def decide(self, message_id: str, *, commit: bool, end: Phase | None = OK) -> None:
        self.add("p", What.DECIDE, INVOKE, id=message_id, commit=commit)
        if end is not None:
            self.add("p", What.DECIDE, end, id=message_id, commit=commit)

    def recall(self, message_id: str, end: Phase = OK) -> None:
        self.add("p", What.RECALL, INVOKE, id=message_id)
        self.add("p", What.RECALL, end, id=message_id)

    def see(self, message_id: str, offset: int, *groups: str, queue: str = QUEUES[0]) -> None:
        """It comes to a member of each group, who handles it."""
        for group in groups or ("many", "pop"):
            self.handle(f"of {group}", group, message_id, (queue, offset), crc=0)

    def pop(self, who: str, message_id: str, place: tuple[str, int], until_ns: int = LATER) -> None:
        self.begin(who, "pop", message_id, place, crc=0, until_ns=until_ns)

    def ack(
        self, who: str, message_id: str, place: tuple[str, int], end: Phase | None = OK
    ) -> None:
        facts: dict[str, Any] = {"group": "pop", "id": message_id}
        facts |= {"queue": place[0], "offset": place[1]}
        self.add(who, What.ACK, INVOKE, **facts)
        if end is not None:
            self.add(who, What.ACK, end, **facts)
        if end is OK:
            self.add(who, What.HANDLE, OK, **facts)

    def hide(
        self, who: str, message_id: str, place: tuple[str, int], until_ns: int, end: Phase = OK
    ) -> None:
        facts: dict[str, Any] = {"group": "pop", "id": message_id}
        facts |= {"queue": place[0], "offset": place[1]}
        self.add(who, What.HIDE, INVOKE, until_ns=until_ns, **facts)
        self.add(who, What.HIDE, end, **facts)

    def stage(
        self, batch: str, stage: str, *ids: str, end: Phase | None = OK, commits: bool = True
    ) -> None:
        facts: dict[str, Any] = {"name": batch, "stage": stage}
        for message_id in ids:
            self.add("p", What.SEND, INVOKE, id=message_id, topic="t", **facts)
        if commits:
            self.add("p", What.COMMIT, INVOKE, **facts)
            if end is not None:
                self.add("p", What.COMMIT, end, **facts)


def clean() -> Fated:
    """Every kind, and each is shown as was decided."""
    story = Fated()
    story.join("of many", "many")
    story.join("of pop", "pop", popped=True)
    story.join("p1", "pop", popped=True)
    for number, message_id in enumerate(("committed", "asked", "undone", "open", "unsure")):
        story.half(message_id, INFO if message_id == "unsure" else OK)
        if message_id == "committed":
            story.decide(message_id, commit=True)
        elif message_id == "asked":
            story.decide(message_id, commit=True, end=INFO)
            story.add("q", What.DECIDE, INVOKE, id=message_id, commit=True)
        elif message_id == "undone":
            story.decide(message_id, commit=False)
        if message_id in ("committed", "asked"):
            story.see(message_id, number)
    story.sent("timed", due_ns=10 * (len(story.events) + 3))
    story.see("timed", 5)
    story.sent("back", due_ns=LATER)
    story.recall("back")
    story.sent("too late")
    story.see("too late", 6)
    story.recall("too late", FAIL)
    story.sent("who knows", due_ns=LATER)
    story.recall("who knows", INFO)
    # Popped: one comes again when its time is over, one because its member gave it up.
    story.sent("popped")
    place = QUEUES[1], 0
    story.see("popped", 0, "many", queue=QUEUES[1])
    story.pop("p1", "popped", place, until_ns=10 * (len(story.events) + 2))
    story.add("nobody", What.JOIN, OK, group="none")
    story.pop("p1", "popped", (RETRY, 0))
    story.hide("p1", "popped", (RETRY, 0), 0)
    story.pop("of pop", "popped", (RETRY, 1))
    story.ack("of pop", "popped", (RETRY, 1))
    # Batches: one by its second try, one tried again though it shows, one given up.
    story.stage("1", "1/a", "1a", "1b", end=INFO)
    story.stage("1", "1/b", "1c", "1d")
    story.stage("2", "2/a", "2a", "2b")
    story.stage("2", "2/b", "2c")
    story.stage("3", "3/a", "3a", commits=False)
    for number, message_id in enumerate(("1c", "1d", "2a", "2b")):
        story.see(message_id, 10 + number)
    return story


def plant_half(story: Fated) -> None:
    story.see("open", 100)


def plant_half_that_was_never_answered(story: Fated) -> None:
    story.see("unsure", 100)


def plant_half_before_its_commit(story: Fated) -> None:
    at = find(story, what=What.HANDLE, id="committed", phase=INVOKE)
    change(story, at, at_ns=1)


def plant_rolled_back(story: Fated) -> None:
    story.see("undone", 100)


def plant_rolled_back_and_not_answered(story: Fated) -> None:
    change(story, find(story, what=What.DECIDE, id="undone", phase=OK), phase=INFO)
    story.see("undone", 100)


def plant_committed_and_lost(story: Fated) -> None:
    drop(story, what=What.HANDLE, id="committed", group="many")


def plant_committed_when_asked_and_lost(story: Fated) -> None:
    drop(story, what=What.HANDLE, id="asked", group="pop")


def plant_committed_twice(story: Fated) -> None:
    story.see("committed", 100)


def plant_early(story: Fated) -> None:
    change(story, find(story, what=What.HANDLE, id="timed"), at_ns=1)


def plant_recalled(story: Fated) -> None:
    story.see("back", 100)


def plant_not_recalled_and_lost(story: Fated) -> None:
    drop(story, what=What.HANDLE, id="too late", group="many")


def plant_acked(story: Fated) -> None:
    story.pop("p1", "popped", (RETRY, 2))


def plant_acked_at_its_place(story: Fated) -> None:
    story.pop("p1", "popped", (RETRY, 1))


def plant_acked_by_a_push_consumer(story: Fated) -> None:
    story.see("committed", 3, "pop", queue=RETRY)


def test_a_push_consumer_that_acknowledged_too_late_gets_it_again() -> None:
    story = clean()
    story.ack("of pop", "committed", (QUEUES[0], 0), FAIL)
    story.see("committed", 3, "pop", queue=RETRY)
    assert story.kinds() == set()
    story.ack("of pop", "committed", (RETRY, 3))
    story.see("committed", 4, "pop", queue=RETRY)
    assert story.kinds() == {"acked"}


def plant_acked_and_a_fault(story: Fated) -> None:
    story.add("nemesis", What.FAULT, INVOKE, name="broker killed")
    story.pop("p1", "popped", (RETRY, 2))


def plant_hidden(story: Fated) -> None:
    drop(story, what=What.HIDE)


def plant_hidden_for_longer(story: Fated) -> None:
    at = find(story, what=What.HIDE, phase=INVOKE)
    change(story, at, until_ns=LATER)


def plant_uncommitted(story: Fated) -> None:
    story.see("3a", 100)


def plant_uncommitted_yet(story: Fated) -> None:
    change(story, find(story, what=What.HANDLE, id="2a", phase=INVOKE), at_ns=1)


def plant_torn(story: Fated) -> None:
    drop(story, what=What.HANDLE, id="1d")


def plant_torn_for_one_group(story: Fated) -> None:
    drop(story, what=What.HANDLE, id="1d", group="pop")


def plant_batch_lost(story: Fated) -> None:
    drop(story, what=What.HANDLE, id="2a")
    drop(story, what=What.HANDLE, id="2b")


def plant_batch_twice(story: Fated) -> None:
    story.see("2c", 100)


def plant_batch_by_both_tries(story: Fated) -> None:
    story.see("1a", 100)
    story.see("1b", 101)


def plant_staged_twice(story: Fated) -> None:
    story.see("2a", 100)


PLANTED: list[tuple[Callable[[Fated], None], str]] = [
    (plant_half, "half"),
    (plant_half_that_was_never_answered, "half"),
    (plant_half_before_its_commit, "half"),
    (plant_rolled_back, "rolled back"),
    (plant_rolled_back_and_not_answered, "rolled back"),
    (plant_committed_and_lost, "lost"),
    (plant_committed_when_asked_and_lost, "lost"),
    (plant_committed_twice, "stored twice"),
    (plant_early, "early"),
    (plant_recalled, "recalled"),
    (plant_not_recalled_and_lost, "lost"),
    (plant_acked, "acked"),
    (plant_acked_at_its_place, "acked"),
    (plant_acked_by_a_push_consumer, "acked"),
    (plant_acked_and_a_fault, "acked"),
    (plant_hidden, "hidden"),
    (plant_hidden_for_longer, "hidden"),
    (plant_uncommitted, "uncommitted"),
    (plant_uncommitted_yet, "uncommitted"),
    (plant_torn, "torn"),
    (plant_torn_for_one_group, "torn"),
    (plant_batch_lost, "lost"),
    (plant_batch_twice, "batch twice"),
    (plant_batch_by_both_tries, "batch twice"),
    (plant_staged_twice, "stored twice"),
]


def test_a_clean_history_has_no_anomaly() -> None:
    assert_clean(clean().events)


@pytest.mark.parametrize(("plant", "kind"), PLANTED, ids=lambda each: getattr(each, "__name__", ""))
def test_what_was_planted_is_named(plant: Callable[[Fated], None], kind: str) -> None:
    story = clean()
    plant(story)
    story.events.sort(key=lambda event: event.at_ns)
    assert kind in story.kinds()
    with pytest.raises(HistoryBroken, match=f"{kind}: "):
        assert_clean(story.events)


def test_every_kind_of_anomaly_that_is_promised_is_planted() -> None:
    assert decision_checks.__doc__ is not None
    table = decision_checks.__doc__.split("\n\n")[1]
    promised = {line.strip()[:17].strip() for line in table.splitlines()}
    assert promised <= {kind for _, kind in PLANTED}


# What nobody knows for sure is no anomaly.


def test_before_everything_was_drained_nothing_counts_as_lost_or_torn() -> None:
    for plant in (plant_committed_and_lost, plant_torn, plant_batch_lost):
        story = clean()
        plant(story)
        assert story.kinds(drained=False) == set()


def test_a_commit_that_was_refused_is_none() -> None:
    story = clean()
    story.half("late")
    story.decide("late", commit=True, end=FAIL)
    assert story.kinds() == set()
    story.see("late", 100)
    assert story.kinds() == {"half"}


def test_what_a_broker_said_counts_and_not_what_was_asked_for_later() -> None:
    story = clean()
    story.half("both")
    story.decide("both", commit=True, end=INFO)
    story.decide("both", commit=False, end=INFO)
    assert story.kinds() == set()
    story.see("both", 100)
    assert story.kinds() == set()
    change(story, find(story, id="both", what=What.DECIDE, phase=INFO, commit=False), phase=OK)
    assert story.kinds() == {"rolled back"}


def test_of_a_send_that_went_twice_a_recall_may_leave_one() -> None:
    story = clean()
    story.sent("twice", INFO)
    story.sent("twice")
    story.recall("twice")
    story.see("twice", 100)
    assert story.kinds() == set()


def test_what_a_push_consumer_could_not_acknowledge_may_come_again() -> None:
    story = clean()
    story.add("nemesis", What.FAULT, INVOKE, name="broker killed")
    story.see("committed", 3, "pop", queue=RETRY)
    story.add("nemesis", What.FAULT, OK, name="broker killed")
    assert story.kinds() == set()
    story.sent("new")
    story.see("new", 100)
    story.see("new", 4, "pop", queue=RETRY)
    assert story.kinds() == {"acked"}, "nothing was broken by then"


@pytest.mark.parametrize(("end", "kinds"), [(OK, {"acked"}), (INFO, set()), (FAIL, set())])
def test_an_acknowledgement_counts_when_the_broker_has_it(end: Phase, kinds: set[str]) -> None:
    story = clean()
    story.sent("new")
    story.see("new", 1, "many", queue=QUEUES[1])
    place = QUEUES[1], 1
    story.pop("p1", "new", place, until_ns=1)
    story.ack("p1", "new", place, end)
    story.pop("of pop", "new", (RETRY, 9))
    story.ack("of pop", "new", (RETRY, 9))
    assert story.kinds() == kinds


@pytest.mark.parametrize(
    ("end", "kinds"), [(OK, set()), (INFO, set()), (None, set()), (FAIL, {"lost"})]
)
def test_what_was_perhaps_acknowledged_may_not_come_again(
    end: Phase | None, kinds: set[str]
) -> None:
    story = clean()
    story.sent("new")
    story.see("new", 1, "many", queue=QUEUES[1])
    place = QUEUES[1], 1
    story.pop("p1", "new", place)
    story.ack("p1", "new", place, end)
    assert story.kinds() == kinds


def test_a_time_that_was_perhaps_changed_binds_nobody() -> None:
    for end, kinds in ((INFO, set()), (FAIL, {"hidden"})):
        story = clean()
        change(story, find(story, what=What.HIDE, phase=OK), phase=end)
        assert story.kinds() == kinds


def test_two_copies_of_a_message_are_acknowledged_one_by_one() -> None:
    story = clean()
    story.sent("twice", INFO)
    story.sent("twice")
    story.see("twice", 100, "many")
    for offset in (100, 101):
        story.pop("p1", "twice", (QUEUES[0], offset))
        story.ack("p1", "twice", (QUEUES[0], offset))
    assert story.kinds() == set()


def test_what_failed_in_all_its_attempts_does_not_tear_a_batch() -> None:
    story = clean()
    story.join("of few", "few", max_retries=0)
    for message_id, offset in (("committed", 0), ("asked", 1), ("timed", 5), ("too late", 6)):
        story.see(message_id, offset, "few")
    story.see("popped", 0, "few", queue=QUEUES[1])
    for number, message_id in enumerate(("1c", "1d", "2a")):
        story.see(message_id, 10 + number, "few")
    assert story.kinds() == {"torn"}
    story.handle("of few", "few", "2b", (QUEUES[0], 13), FAIL, crc=0)
    assert story.kinds() == set()
