"""A client before servers, and how what it saw is held against what it should have seen."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.compat.clients.catalog import Client
from tests.compat.clients.driver import Driver, Outgoing, Received, Sent
from tests.compat.clients.targets import Target

#: As many as clients ask for when they let a topic be created.
QUEUES = 4
PROBE = b"a probe of round "
FIRST = b"so that there is a topic"
#: Of probing, until both members of a group read what they should.
ROUNDS = 90
LARGE = b"a body that is worth compressing " * 700


@dataclass(frozen=True, slots=True)
class Stage:
    """One client before one pair of servers; it runs twice, for scenarios with two members."""

    client: Client
    target: Target
    one: Driver
    two: Driver
    #: In the names of topics and groups, so that the same servers can have the client again.
    number: int

    def named(self, word: str) -> str:
        return f"{self.client.word}-{self.number}-{word}"

    def topic(self, word: str) -> str:
        """The name of a topic: one that is there already, if the client cannot have it created."""
        name = self.named(word)
        if not self.client.creates_topics:
            self.target.put(name, 0, FIRST)
            self.target.await_route(name)
        return name

    def send_all(self, messages: Iterable[Outgoing]) -> list[tuple[Outgoing, Sent]]:
        return [(message, self.one.send(message)) for message in messages]

    def outgoing(self, topic: str, word: str, numbers: Iterable[int]) -> list[Outgoing]:
        """Messages that have all a client can give them, each another body."""
        hows = self.client.hows
        return [
            Outgoing(
                topic=topic,
                body=f"{word} {number} größer als {number - 1}".encode(),
                tag=f"tag-{number % 3}",
                keys=f"{word}-{number} every",
                properties=({"color": "blau"} if self.client.has_properties else {}),
                how=hows[number % len(hows)],
            )
            for number in numbers
        ]


def bodies(messages: Iterable[Outgoing | Received]) -> list[bytes]:
    return [message.body for message in messages]


def received(driver: Driver, consumer: str) -> list[Received]:
    """What a consumer got, without what only served to bring it about."""
    return [one for one in driver.received(consumer) if not one.body.startswith((FIRST, PROBE))]


def exactly(got: Iterable[Received], wanted: Iterable[bytes]) -> None:
    """Each of these bodies came as often as it is in the list."""
    came, due = Counter(bodies(got)), Counter(wanted)
    assert came == due, f"missing {dict(due - came)}, too many {dict(came - due)}"


def same(got: Sequence[Received], sent: Sequence[tuple[Outgoing, Sent]], client: Client) -> None:
    """Hold what came against what was sent: each once, and alike in all that the client reveals."""
    exactly(got, [message.body for message, _ in sent])
    by_body = {message.body: (message, answer) for message, answer in sent}
    for came in got:
        message, answer = by_body[came.body]
        assert came.topic == message.topic
        assert came.tag == message.tag
        assert came.keys == message.keys
        if came.properties is not None:
            assert message.properties.items() <= came.properties.items()
        if came.reconsumed is not None:
            assert came.reconsumed == 0
        stays = not message.delay
        if answer.id is not None and (stays or client.unique_ids):
            assert came.id == answer.id, message
        if stays and answer.queue is not None and came.queue is not None:
            assert came.queue == answer.queue, message
        if stays and answer.offset is not None and came.offset is not None:
            assert came.offset == answer.offset, message
    places = Counter((came.queue, came.offset) for came in got if came.offset is not None)
    assert all(times == 1 for times in places.values())


def left_in_good_order(stage: Stage, group: str, topic: str) -> None:
    """The group has no members any more, and has committed all there is."""
    nobody_left(stage, group)
    for queue in range(QUEUES):
        end = stage.target.end(topic, queue)
        if end:
            stage.target.until_committed(group, topic, queue, end)


def nobody_left(stage: Stage, group: str) -> None:
    if not stage.client.unregisters:
        stage.target.until_left(group)
    assert stage.target.members(group) == ()


def known_group(stage: Stage, group: str, topic: str) -> None:
    """Let the group have had a member: some find its retry topic at once only if it is there."""
    if stage.client.slow_routes:
        stage.target.put(topic, 0, FIRST)
        stage.target.await_route(topic)
        stage.two.consume(f"early {group}", group, topic)
        stage.two.until_bodies(f"early {group}", [FIRST])
        stage.two.stop(f"early {group}")


def sequence(stage: Stage, topic: str, numbers: Iterable[int]) -> list[Outgoing]:
    return [
        Outgoing(topic=topic, body=f"{word} {number}".encode(), order=word)
        for number in numbers
        for word in stage.client.order_words
    ]


def in_order(got: Sequence[Received], sent: Sequence[Outgoing]) -> None:
    order = {message.body: message.order for message in sent}
    came, queues = defaultdict(list), defaultdict(set)
    for message in got:
        came[order[message.body]].append(message.body)
        queues[order[message.body]].add(message.queue)
    for word, messages in came.items():
        assert messages == [message.body for message in sent if message.order == word]
        assert len(queues[word]) == 1, f"{word} is in the queues {queues[word]}"


def both(stage: Stage, consumer: str) -> set[bytes]:
    return {
        message.body for driver in (stage.one, stage.two) for message in driver.received(consumer)
    }


def settle(stage: Stage, topic: str, consumer: str, *, everything: bool) -> None:
    """Probe each queue until both members read everything, or half each: they take their time."""
    share = QUEUES if everything else QUEUES // 2
    for number in range(ROUNDS):
        probes = {PROBE + b"%d to queue %d" % (number, queue) for queue in range(QUEUES)}
        for queue in range(QUEUES):
            stage.target.put(topic, queue, PROBE + b"%d to queue %d" % (number, queue))
        if stage.one.comes(partial(_read_by_both, stage, consumer, probes, share)):
            return
    raise AssertionError(f"the members of {topic} did not come to read {share} queues each")


def _read_by_both(stage: Stage, consumer: str, probes: set[bytes], share: int) -> bool:
    one, two = (
        probes & set(bodies(driver.received(consumer))) for driver in (stage.one, stage.two)
    )
    return len(one) == len(two) == share and one | two == probes
