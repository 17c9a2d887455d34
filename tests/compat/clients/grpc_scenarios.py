"""What a client that speaks gRPC must see, whosever servers it talks to.

Each scenario has topics and groups of its own, so that all of a client's run at once. Messages that
came are looked at after their consumer has stopped: one delivery too many would show.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.compat.clients.driver import Driver, Outgoing, Received, Sent
from tests.compat.clients.grpc_targets import GrpcTarget

from rocketpipe.model.topic import MessageType

WORDS = ("a", "b", "c")


@dataclass(frozen=True, slots=True)
class GrpcStage:
    """One client before one port."""

    driver: Driver
    target: GrpcTarget
    #: In the names of topics and groups.
    word: str
    #: Go's client goes on behind a message of a group that failed, which comes again later.
    waits_in_order: bool = True

    def topic(self, name: str, kind: MessageType = MessageType.NORMAL) -> str:
        self.target.make_topic(f"{self.word}-{name}", kind)
        return f"{self.word}-{name}"

    def group(self, name: str, **settings: object) -> str:
        self.target.make_group(f"{self.word}-{name}-group", **settings)
        return f"{self.word}-{name}-group"

    def send(self, messages: Iterable[Outgoing]) -> list[tuple[Outgoing, Sent]]:
        return [(message, self.driver.send(message)) for message in messages]

    def finished(self, consumer: str) -> list[Received]:
        self.driver.stop(consumer)
        return self.driver.received(consumer)


def outgoing(topic: str, count: int) -> list[Outgoing]:
    return [
        Outgoing(
            topic=topic,
            body=f"{topic} {number} größer".encode(),
            tag=f"tag-{number % 3}",
            keys=f"k{number} every",
            properties={"color": "blau", "size": str(number)},
        )
        for number in range(count)
    ]


def same(got: Iterable[Received], sent: Iterable[tuple[Outgoing, Sent]]) -> None:
    """Each came once, as it was sent, for the first time."""
    by_body = {message.body: (message, answer) for message, answer in sent}
    got = list(got)
    assert Counter(each.body for each in got) == Counter(list(by_body))
    for came in got:
        message, answer = by_body[came.body]
        assert (came.topic, came.tag, came.keys) == (message.topic, message.tag, message.keys)
        assert came.id == answer.id
        assert came.reconsumed == 0
        assert message.properties.items() <= (came.properties or {}).items()


def pushed(stage: GrpcStage) -> None:
    """A push consumer gets everything once, what was there and what comes."""
    topic, group = stage.topic("pushed"), stage.group("pushed")
    sent = stage.send(outgoing(topic, 12)[:6])
    stage.driver.consume("pushed", group, topic)
    sent += stage.send(outgoing(topic, 12)[6:])
    stage.driver.until_bodies("pushed", [message.body for message, _ in sent])
    same(stage.finished("pushed"), sent)


def received(stage: GrpcStage) -> None:
    """A simple consumer gets everything once, and again what it did not acknowledge."""
    topic, group = stage.topic("received"), stage.group("received")
    sent = stage.send(outgoing(topic, 8))
    failing = sent[3][0].body
    stage.driver.consume("received", group, topic, simple=True, fail={failing: 1})
    wanted = Counter([*(message.body for message, _ in sent), failing])
    stage.driver.until(
        "received",
        lambda got: not wanted - Counter(each.body for each in got),
        "all, and one twice",
    )
    got = stage.finished("received")
    assert Counter(each.body for each in got) == wanted
    attempts = [each.reconsumed for each in got if each.body == failing]
    assert attempts == [0, 1]


def tagged(stage: GrpcStage) -> None:
    """Only the tags that were asked for come."""
    topic, group = stage.topic("tagged"), stage.group("tagged")
    sent = stage.send(outgoing(topic, 12))
    wanted = [each for each in sent if each[0].tag in ("tag-0", "tag-2")]
    stage.driver.consume("tagged", group, topic, expression="tag-0 || tag-2")
    stage.driver.until_bodies("tagged", [message.body for message, _ in wanted])
    same(stage.finished("tagged"), wanted)


def sql(stage: GrpcStage) -> None:
    """Only messages whose properties an expression chooses come."""
    topic, group = stage.topic("sql"), stage.group("sql")
    sent = stage.send(outgoing(topic, 12))
    wanted = [each for each in sent if int(each[0].properties["size"]) > 7]
    expression = "color = 'blau' AND size > 7"
    stage.driver.consume("sql", group, topic, expression=expression, sql=True)
    stage.driver.until_bodies("sql", [message.body for message, _ in wanted])
    same(stage.finished("sql"), wanted)


def ordered(stage: GrpcStage) -> None:
    """Each message group comes in order, though one of its messages fails at first."""
    topic = stage.topic("ordered", MessageType.FIFO)
    group = stage.group("ordered", ordered=True)
    sent = [
        Outgoing(topic=topic, body=f"{word} {number}".encode(), order=word)
        for number in range(5)
        for word in WORDS
    ]
    stage.send(sent)
    failing = b"b 2"
    stage.driver.consume("ordered", group, topic, fail={failing: 1})
    stage.driver.until_bodies("ordered", [message.body for message in sent])
    came = defaultdict(list)
    for each in stage.finished("ordered"):
        came[each.body[:1].decode()].append(each.body)
    for word in WORDS:
        due = [message.body for message in sent if message.order == word]
        once = list(dict.fromkeys(came[word]))
        assert once == due
        if stage.waits_in_order:  # nothing overtakes the one that failed
            assert came[word] == sorted(came[word], key=due.index)


def delayed(stage: GrpcStage) -> None:
    """A message for a moment comes then, and not before."""
    topic, group = stage.topic("delayed", MessageType.DELAY), stage.group("delayed")
    stage.driver.consume("delayed", group, topic)
    began_s = time.time()
    sent = Outgoing(topic=topic, body=b"later", after_ms=4000)
    stage.send([sent])
    stage.driver.until_bodies("delayed", [sent.body])
    assert time.time() - began_s >= 3.5  # the wheel turns by tenths of seconds
    assert len(stage.finished("delayed")) == 1


def transactions(stage: GrpcStage) -> None:
    """What was committed comes, what was rolled back does not, and what was left open is asked."""
    topic = stage.topic("transactions", MessageType.TRANSACTION)
    group = stage.group("transactions")
    committed, rolled_back, left_open, dropped = (
        Outgoing(topic=topic, body=word.encode(), properties=properties)
        for word, properties in (
            ("committed", {}),
            ("rolled back", {}),
            ("left open", {"ends": "commit"}),
            ("dropped", {"ends": "rollback"}),
        )
    )
    stage.driver.transaction(committed, commit=True)
    stage.driver.transaction(rolled_back, commit=False)
    stage.driver.transaction(dropped, commit=False)
    stage.driver.transaction(left_open, commit=False)
    stage.driver.consume("transactions", group, topic)
    stage.driver.until_bodies("transactions", [committed.body, left_open.body])
    got = {each.body for each in stage.finished("transactions")}
    assert got == {committed.body, left_open.body}


def dead(stage: GrpcStage) -> None:
    """What fails once too often goes to the dead letters, and the rest does not wait for it."""
    topic, group = stage.topic("dead"), stage.group("dead", max_attempts=2)
    sent = outgoing(topic, 4)
    stage.driver.consume("dead", group, topic, fail={sent[1].body: 99})
    stage.send(sent)
    stage.driver.until_bodies("dead", [message.body for message in sent])
    stage.driver.until(
        "dead", lambda _: stage.target.dead_letters(group) == 1, "one, and that a dead letter"
    )
    got = Counter(each.body for each in stage.finished("dead"))
    assert got[sent[1].body] == 2
    assert all(got[message.body] == 1 for message in (sent[0], *sent[2:]))


SCENARIOS: dict[str, Callable[[GrpcStage], None]] = {
    scenario.__name__: scenario
    for scenario in (pushed, received, tagged, sql, ordered, delayed, transactions, dead)
}
