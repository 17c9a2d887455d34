"""Whether two batches hold the same, however they were ordered and split."""

from __future__ import annotations

import random

from rocketpipe.client.producer.staging.content import MAX_TOPICS, Content, checksum

MESSAGES = [("t", b"%d" % number, b"KEYS\x01k\x02") for number in range(20)]


def content(messages: list[tuple[str, bytes, bytes]], parts: int = 1) -> Content:
    whole = Content()
    for part in range(parts):
        some = Content()
        for topic, body, properties in messages[part::parts]:
            some.add(topic, checksum(topic, 0, body, properties), len(body))
        whole.join(some)
    return whole


def test_order_and_parts_do_not_matter() -> None:
    shuffled = random.Random(1).sample(MESSAGES, len(MESSAGES))
    assert content(MESSAGES).is_like(content(shuffled, 3))


def test_what_is_said_and_where_does() -> None:
    first = content(MESSAGES)
    for other in (
        ("t", b"0", b"KEYS\x01other\x02"),
        ("t", b"O", b"KEYS\x01k\x02"),
        ("u", b"0", b"KEYS\x01k\x02"),
    ):
        assert not first.is_like(content([other, *MESSAGES[1:]]))
    assert not first.is_like(content(MESSAGES[1:]))
    assert not first.is_like(content([*MESSAGES, MESSAGES[0]]))
    assert checksum("t", 1, b"b", b"") != checksum("t", 2, b"b", b"")


def test_it_is_read_as_it_was_written() -> None:
    first = content(MESSAGES)
    first.take("u", 2, 10, 17)
    first.take("v", 0, 0, 0)
    first.run = "a-run"
    assert Content.of(first.text()) == first
    assert str(first) == "22 messages to t, u"
    assert Content.of(Content().text()) == Content()
    assert str(Content()) == "0 messages"
    for text in (None, "", "elsewhere", "1 2 x - t"):
        assert Content.of(text) is None


def test_a_few_topics_are_named() -> None:
    many = content([(f"t{number}", b"b", b"") for number in range(100)])
    assert len(many.topics) == MAX_TOPICS
