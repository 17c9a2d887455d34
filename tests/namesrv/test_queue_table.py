"""Queues of topics on brokers, as told and as shown."""

from __future__ import annotations

from rocketpipe.model.route import BrokerQueues
from rocketpipe.namesrv.queue_table import QueueTable


def queues(broker: str = "a", *, count: int = 4, perm: int = 6, flag: int = 0) -> BrokerQueues:
    return BrokerQueues(
        broker_name=broker, read_queues=count, write_queues=count, perm=perm, topic_sys_flag=flag
    )


def table(*topics: str) -> QueueTable:
    made = QueueTable()
    for topic in topics:
        made.tell(topic, queues())
    return made


def test_what_is_told_is_shown() -> None:
    made = table("t")
    assert made.of("t")["a"].shown == queues()
    assert made.of("nowhere") == {}
    assert made.count == 1


def test_what_is_told_again_does_not_undo_what_an_operator_shows() -> None:
    made = table("t")
    assert made.show_perm("a", lambda perm: perm & ~2) == 1
    made.tell("t", queues())
    assert made.of("t")["a"].shown.perm == 4


def test_something_new_about_a_topic_undoes_it() -> None:
    made = table("t")
    made.show_perm("a", lambda perm: perm & ~2)
    made.tell("t", queues(count=8))
    assert made.of("t")["a"].shown == queues(count=8)


def test_a_broker_that_comes_afresh_undoes_it() -> None:
    made = table("t")
    made.show_perm("a", lambda perm: perm & ~2)
    made.tell("t", queues(), afresh=True)
    assert made.of("t")["a"].shown.perm == 6


def test_when_nobody_takes_writes_the_next_who_does_is_believed() -> None:
    made = table("t")
    made.end_writing("a")
    assert made.of("t")["a"].shown.perm == 4
    made.tell("t", queues())
    assert made.of("t")["a"].shown.perm == 6


def test_changes_to_one_broker_leave_the_others_alone() -> None:
    made = table("t")
    made.tell("t", queues("b"))
    assert made.show_perm("b", lambda _: 0) == 1
    assert made.show_perm("nobody", lambda _: 0) == 0
    made.end_writing("nobody")
    assert made.of("t")["a"].shown.perm == 6
    assert made.of("t")["b"].shown.perm == 0


def test_an_entry_that_is_dropped_is_gone_from_every_count() -> None:
    made = table("t", "u")
    made.tell("t", queues("b"))
    assert made.count == 3
    assert made.drop("t", "a") is True
    assert made.drop("t", "a") is False
    assert made.count == 2
    assert made.topics() == {"t", "u"}
    assert made.topics_on("a") == {"u"}
    made.drop_broker("b")
    made.drop_broker("a")
    assert made.count == 0
    assert made.topics() == frozenset()
    assert made._topics == {}
    assert made._brokers == {}


def test_topics_that_a_broker_lacks_are_counted() -> None:
    made = table("t")
    assert made.lacking("a", ["t", "u", "v"]) == 2
    assert made.lacking("b", ["t"]) == 1


def test_topics_are_found_by_their_flag() -> None:
    made = table("plain")
    made.tell("unit", queues(flag=1))
    assert made.flagged(lambda flag: flag & 1 == 1) == {"unit"}
