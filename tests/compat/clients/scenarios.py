"""What a client must see, whosever servers it talks to.

Each scenario has topics and groups of its own, so that all of a client's run at once. Messages that
came are looked at after their consumer has stopped: one delivery too many would show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.compat.clients.driver import ClientRefused, Outgoing, Sent
from tests.compat.clients.stage import (
    FIRST,
    LARGE,
    QUEUES,
    Stage,
    bodies,
    both,
    exactly,
    in_order,
    known_group,
    left_in_good_order,
    nobody_left,
    received,
    same,
    sequence,
    settle,
)


def normal(stage: Stage) -> None:
    """All is received once; a later member of the group goes on where the first one stopped."""
    topic, group = stage.topic("normal"), stage.named("normal-group")
    sent = stage.send_all(stage.outgoing(topic, "before", range(40)))
    sent += stage.send_all([Outgoing(topic=topic, body=LARGE)])
    stage.target.await_route(topic)
    stage.one.consume("first", group, topic)
    sent += stage.send_all(stage.outgoing(topic, "while", range(40)))
    stage.one.until_bodies("first", [message.body for message, _ in sent])
    stage.one.stop("first")
    same(received(stage.one, "first"), sent, stage.client)
    left_in_good_order(stage, group, topic)
    later = stage.send_all(stage.outgoing(topic, "after", range(20)))
    stage.one.consume("second", group, topic)
    stage.one.until_bodies("second", [message.body for message, _ in later])
    stage.one.stop("second")
    same(received(stage.one, "second"), later, stage.client)
    left_in_good_order(stage, group, topic)


def tagged(stage: Stage) -> None:
    """Only the tags that were asked for come."""
    topic, group = stage.topic("tagged"), stage.named("tagged-group")
    sent = stage.send_all(
        Outgoing(topic=topic, body=b"%d" % number, tag="abc"[number % 3]) for number in range(30)
    )
    stage.target.await_route(topic)
    wanted = [(message, answer) for message, answer in sent if message.tag in ("a", "c")]
    stage.one.consume("tagged", group, topic, expression="a || c")
    stage.one.until_bodies("tagged", [message.body for message, _ in wanted])
    stage.one.stop("tagged")
    same(received(stage.one, "tagged"), wanted, stage.client)


def sql(stage: Stage) -> None:
    """Only messages whose properties an expression chooses come."""
    topic, group = stage.topic("sql"), stage.named("sql-group")
    sent = stage.send_all(
        Outgoing(
            topic=topic,
            body=b"%d" % number,
            properties={"size": str(number), "color": "red" if number % 2 else "blue"},
        )
        for number in range(30)
    )
    stage.target.await_route(topic)
    wanted = [
        (message, answer)
        for message, answer in sent
        if int(message.properties["size"]) > 10 and message.properties["color"] == "red"
    ]
    expression = "size > 10 AND color = 'red'"
    stage.one.consume("sql", group, topic, expression=expression, sql=True)
    stage.one.until_bodies("sql", [message.body for message, _ in wanted])
    stage.one.stop("sql")
    same(received(stage.one, "sql"), wanted, stage.client)


def ordered(stage: Stage) -> None:
    """What belongs together goes to one queue and comes in the order in which it was sent."""
    topic, group = stage.topic("ordered"), stage.named("ordered-group")
    sent = stage.send_all(sequence(stage, topic, range(12)))
    stage.target.await_route(topic)
    stage.one.consume("ordered", group, topic, orderly=True)
    sent += stage.send_all(sequence(stage, topic, range(12, 24)))
    stage.one.until_bodies("ordered", [message.body for message, _ in sent])
    stage.one.stop("ordered")
    got = received(stage.one, "ordered")
    same(got, sent, stage.client)
    in_order(got, [message for message, _ in sent])
    left_in_good_order(stage, group, topic)


def held_up(stage: Stage) -> None:
    """A message that an ordered consumer could not take holds up those behind it, not the rest."""
    topic, group = stage.topic("held_up"), stage.named("held_up-group")
    sent = stage.send_all(sequence(stage, topic, range(8)))
    stage.target.await_route(topic)
    failing = sent[stage.client.order_words.index("b")][0].body
    stage.one.consume("held_up", group, topic, orderly=True, fail={failing: 2})
    stage.one.until("held_up", lambda got: len(got) >= len(sent) + 2, "all, and one thrice")
    stage.one.stop("held_up")
    got = received(stage.one, "held_up")
    assert bodies(got).count(failing) == 3
    once = list({message.body: message for message in got}.values())
    exactly(once, [message.body for message, _ in sent])
    in_order(once, [message for message, _ in sent])
    first = bodies(got).index(failing)
    held = {message.body for message, _ in sent if message.order == "b"} - {failing}
    until = len(got) - bodies(got)[::-1].index(failing)
    assert not held & set(bodies(got[first:until]))


def delayed(stage: Stage) -> None:
    """A delayed message is there a second later; those behind it do not wait for it."""
    topic, group = stage.topic("delayed"), stage.named("delayed-group")
    messages = [
        replace(message, how="sync", delay=1 - number % 2)
        for number, message in enumerate(stage.outgoing(topic, "delayed", range(8)))
    ]
    sent = stage.send_all(messages)
    stage.target.await_route(topic)
    stage.one.consume("delayed", group, topic)
    stage.one.until_bodies("delayed", bodies(messages))
    stage.one.stop("delayed")
    got = received(stage.one, "delayed")
    same(got, sent, stage.client)
    delays = {message.body: message.delay for message in messages}
    for message in got:
        assert message.stored_ms is not None
        assert message.born_ms is not None
        if delays[message.body]:
            assert message.stored_ms - message.born_ms >= 1000


def batched(stage: Stage) -> None:
    """The messages of a batch come one by one, beside each other in one queue."""
    topic, group = stage.topic("batched"), stage.named("batched-group")
    messages = [replace(one, how="sync") for one in stage.outgoing(topic, "batch", range(10))]
    answer = stage.one.send_batch(messages)
    stage.target.await_route(topic)
    stage.one.consume("batched", group, topic)
    stage.one.until_bodies("batched", bodies(messages))
    stage.one.stop("batched")
    got = sorted(received(stage.one, "batched"), key=lambda message: message.offset or 0)
    # Ids are told for the batch or for each, and Apache's broker gives each that of the batch.
    same(got, [(message, Sent()) for message in messages], stage.client)
    assert len(set((answer.offset_id or "").split(","))) == len(messages)
    assert bodies(got) == bodies(messages)
    assert [message.offset for message in got] == list(range(10))
    assert len({message.queue for message in got}) == 1


def retried(stage: Stage) -> None:
    """What a consumer could not take comes again, and says so; the rest comes once."""
    topic, group = stage.topic("retried"), stage.named("retried-group")
    known_group(stage, group, topic)
    messages = [replace(one, how="sync") for one in stage.outgoing(topic, "retried", range(6))]
    sent = stage.send_all(messages[:1])
    stage.target.await_route(topic)
    failing = messages[3].body
    stage.one.consume("retried", group, topic, fail={failing: 2})
    # One by one: C++ clients let all fail that came with the one that did.
    for message in messages[1:]:
        stage.one.until_bodies("retried", [one.body for one, _ in sent])
        sent += stage.send_all([message])
    wanted = Counter([*bodies(messages), failing, failing])
    stage.one.until("retried", lambda got: not wanted - Counter(bodies(got)), "all, and one thrice")
    stage.one.stop("retried")
    got = received(stage.one, "retried")
    exactly(got, wanted.elements())
    answers = {message.body: (message, answer) for message, answer in sent}
    seen: Counter[bytes] = Counter()
    for came in got:
        message, answer = answers[came.body]
        if came.reconsumed is not None:
            assert came.reconsumed == seen[came.body]
        seen[came.body] += 1
        assert (came.topic, came.tag, came.keys) == (message.topic, message.tag, message.keys)
        assert came.id == answer.id
        if came.properties is not None:
            assert message.properties.items() <= came.properties.items()
    left_in_good_order(stage, group, topic)


def dead(stage: Stage) -> None:
    """What fails once too often goes to the dead letters of its group, and nothing waits for it."""
    topic, group = stage.topic("dead"), stage.named("dead-group")
    known_group(stage, group, topic)
    messages = [replace(one, how="sync") for one in stage.outgoing(topic, "dead", range(4))]
    stage.send_all(messages)
    stage.target.await_route(topic)
    failing = messages[1].body
    stage.one.consume("dead", group, topic, fail={failing: 99}, max_retries=1)
    stage.one.until_bodies("dead", bodies(messages))
    stage.target.until_end(f"%DLQ%{group}", 0, 1)
    stage.one.stop("dead")
    exactly(received(stage.one, "dead"), [*bodies(messages), failing])
    assert stage.target.end(f"%DLQ%{group}", 0) == 1


def broadcast(stage: Stage) -> None:
    """Every member gets everything."""
    topic, group = stage.topic("broadcast"), stage.named("broadcast-group")
    stage.send_all([Outgoing(topic=topic, body=FIRST)])
    stage.target.await_route(topic)
    stage.one.consume("broadcast", group, topic, broadcast=True)
    stage.two.consume("broadcast", group, topic, broadcast=True)
    settle(stage, topic, "broadcast", everything=True)
    sent = stage.send_all(stage.outgoing(topic, "to all", range(20)))
    for driver in (stage.one, stage.two):
        driver.until_bodies("broadcast", [message.body for message, _ in sent])
        driver.stop("broadcast")
        same(received(driver, "broadcast"), sent, stage.client)
    nobody_left(stage, group)


def shared(stage: Stage) -> None:
    """Members of a group share a topic's queues; when one leaves, the other has all of them."""
    topic, group = stage.topic("shared"), stage.named("shared-group")
    stage.send_all([Outgoing(topic=topic, body=FIRST)])
    stage.target.await_route(topic)
    stage.one.consume("shared", group, topic)
    stage.two.consume("shared", group, topic)
    settle(stage, topic, "shared", everything=False)
    sent = stage.send_all(stage.outgoing(topic, "shared", range(40)))
    wanted = {message.body for message, _ in sent}
    stage.one.until("shared", lambda _: wanted <= both(stage, "shared"), "all, by either")
    stage.two.stop("shared")
    later = stage.send_all(stage.outgoing(topic, "alone", range(20)))
    stage.one.until_bodies("shared", [message.body for message, _ in later])
    stage.one.stop("shared")
    shares = [received(driver, "shared") for driver in (stage.one, stage.two)]
    assert all(set(bodies(share)) & wanted for share in shares)
    # A client that leaves before it said how far it came has that read again by who stays.
    had = set(bodies(shares[1]))
    stayed = [message for message in shares[0] if message.body not in had]
    same([*stayed, *shares[1]], [*sent, *later], stage.client)
    left_in_good_order(stage, group, topic)


def lookups(stage: Stage) -> None:
    """Messages are found by their keys and by either id."""
    topic = stage.topic("lookups")
    messages = [replace(one, how="sync") for one in stage.outgoing(topic, "found", range(10))]
    sent = stage.send_all(messages)
    stage.target.await_route(topic)
    assert [found.body for found in stage.one.by_key(topic, "found-3")] == [messages[3].body]
    exactly(stage.one.by_key(topic, "every"), bodies(messages))
    message, answer = sent[5]
    for message_id in (answer.id, answer.offset_id):
        assert message_id
        same([stage.one.by_id(topic, message_id)], [(message, answer)], stage.client)


def unknown(stage: Stage) -> None:
    """A topic that nobody has is said to be none, by its name."""
    nowhere = stage.named("nowhere")
    with pytest.raises(ClientRefused, match=nowhere):
        stage.one.queues(nowhere)
    known = stage.topic("known")
    stage.send_all([Outgoing(topic=known, body=b"here")])
    stage.target.await_route(known)
    assert stage.one.queues(known) == QUEUES


def transactions(stage: Stage) -> None:
    """What was committed comes, and what was rolled back does not."""
    topic, group = stage.topic("transactions"), stage.named("transactions-group")
    stage.send_all([Outgoing(topic=topic, body=FIRST)])
    messages = [replace(one, how="sync") for one in stage.outgoing(topic, "half", range(10))]
    for number, message in enumerate(messages):
        stage.one.transaction(message, commit=number % 2 == 0)
    stage.target.await_route(topic)
    stage.one.consume("transactions", group, topic)
    stage.one.until_bodies("transactions", bodies(messages[::2]))
    stage.one.stop("transactions")
    exactly(received(stage.one, "transactions"), bodies(messages[::2]))


def checked(stage: Stage) -> None:
    """What a producer left open is decided when the broker asks it."""
    topic, group = stage.topic("checked"), stage.named("checked-group")
    stage.send_all([Outgoing(topic=topic, body=FIRST)])
    messages = [
        replace(one, how="sync", properties={"ends": ("commit", "rollback")[number % 2]})
        for number, one in enumerate(stage.outgoing(topic, "open", range(6)))
    ]
    for message in messages:
        stage.one.transaction(message, commit=False)
    stage.target.await_route(topic)
    stage.one.consume("checked", group, topic)
    stage.one.until_bodies("checked", bodies(messages[::2]))
    stage.one.stop("checked")
    exactly(received(stage.one, "checked"), bodies(messages[::2]))


def asked(stage: Stage) -> None:
    """A question is answered by whoever consumes it, and the reply comes to whoever asked."""
    topic, group = stage.topic("asked"), stage.named("asked-group")
    stage.send_all([Outgoing(topic=topic, body=FIRST)])
    stage.target.await_route(topic)
    stage.one.consume("asked", group, topic)
    stage.one.until_bodies("asked", [FIRST])
    for number in range(5):
        reply = stage.one.request(Outgoing(topic=topic, body=b"question %d" % number))
        assert reply.body == b"reply to question %d" % number
    stage.one.stop("asked")


def timed(stage: Stage) -> None:
    """A message for a moment comes then and not before; those behind it do not wait for it."""
    topic, group = stage.topic("timed"), stage.named("timed-group")
    messages = [
        replace(message, how="sync", after_ms=1500 - 1500 * (number % 2))
        for number, message in enumerate(stage.outgoing(topic, "timed", range(6)))
    ]
    stage.send_all(messages)
    stage.target.await_route(topic)
    stage.one.consume("timed", group, topic)
    stage.one.until_bodies("timed", bodies(messages))
    stage.one.stop("timed")
    got = received(stage.one, "timed")
    exactly(got, bodies(messages))
    later = {message.body: message.after_ms for message in messages}
    for message in got:
        assert message.stored_ms is not None
        assert message.born_ms is not None
        assert message.stored_ms - message.born_ms >= later[message.body]


SCENARIOS: dict[str, Callable[[Stage], None]] = {
    scenario.__name__: scenario
    for scenario in (
        normal,
        tagged,
        sql,
        ordered,
        held_up,
        delayed,
        batched,
        retried,
        dead,
        broadcast,
        shared,
        lookups,
        unknown,
        transactions,
        checked,
        asked,
        timed,
    )
}
