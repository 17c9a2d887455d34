"""Plain sends picked apart in one go, stored and answered together."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.broker.fast_path.turn import (
    TURN_BYTES,
    PlainSends,
    Turn,
)
from rocketpipe.broker.intake.sent_properties import MAX_TEXT_BYTES, SPECIAL
from rocketpipe.model.flags import BORN_HOST_V6
from rocketpipe.protocol.command import ONEWAY, Command, HeaderKind
from rocketpipe.protocol.frame import bounds_at, decode_frame, encode_frame
from rocketpipe.protocol.hot import scan
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.record.batch import Entry, encode_batch
from rocketpipe.store.log.appender import Appender
from rocketpipe.store.log.puts import Put

KEY = "7F0000010001" + "0" * 20
TEXT = f"KEYS\x01k\x02UNIQ_KEY\x01{KEY}\x02TAGS\x01a\x02WAIT\x01true\x02"
HOST = bytes((10, 0, 0, 3, 0, 0, 195, 81))
PEER: Any = "a peer"
SUFFIX = b"CLUSTER\x01c\x02"


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def command(**fields: Any) -> Command:
    request = SendMessage(
        **{
            "producer_group": "p",
            "topic": "t",
            "default_topic": "TBW102",
            "default_topic_queue_nums": 4,
            "queue_id": 1,
            "sys_flag": 0,
            "born_timestamp": 1_700_000_000_000,
            "flag": 5,
            "properties": TEXT,
            "body": b"hello",
            **fields,
        }
    )
    return to_command(request, 7)


def plain_sends(max_body: int = 100) -> PlainSends:
    known = PlainSends(SUFFIX, max_body)
    known.queues["t"] = 4
    return known


def read(asked: Command, *, host: bytes = HOST, max_body: int = 100, before: int = 3) -> Any:
    """What a turn makes of one send: how it is asked for, and the puts; None if it is not taken."""
    frame = bytes(before) + encode_frame(asked) + b"behind"
    turn = Turn(plain_sends(max_body))
    end = turn.take(frame, before, len(frame), 1 << 20, PEER, host)
    if end == before:
        assert len(turn) == turn.size == 0
        return None
    assert end == len(frame) - len(b"behind")
    assert turn.size == len(asked.body)
    (waiting,) = turn.asked
    assert (waiting.peer, waiting.buffer) == (PEER, frame)
    groups = Kept()
    with pytest.raises(Stop):
        turn.encode(groups, 0, 1)  # type: ignore[arg-type]
    return waiting, groups.groups[0]


class Stop(Exception):
    """No record is made."""


class Kept:
    """An appender for whose files everything is too long, so that it is given puts."""

    segment_bytes = 8
    store_host = HOST
    seal = True
    next_offset = head_of = staticmethod(lambda *_: (0, b""))

    def encode(self, groups: list[list[Put]], start: int, stored_ms: int) -> Any:
        self.groups = groups
        raise Stop


def put(**changes: Any) -> Put:
    plain = Put("t", 1, b"hello", TEXT.encode() + SUFFIX, 5, 0, 1_700_000_000_000, HOST)
    return plain._replace(**changes)


def test_a_send_like_others_becomes_what_to_append() -> None:
    waiting, puts = read(command())
    assert waiting[1:4] == (7, 1, KEY)
    assert puts == [put()]
    assert type(puts[0]) is Put


def test_what_a_record_may_not_have_is_left_out() -> None:
    wide = bytes(20)
    _, puts = read(command(sys_flag=1 | 4 | 8 | 16 | 32), host=wide)
    assert puts == [put(sys_flag=1 | BORN_HOST_V6, born_host=wide)]


def test_properties_end_before_what_is_added() -> None:
    assert read(command(properties=TEXT[:-1]))[1] == [put()]


def test_nobody_waits_for_the_answer_to_a_oneway_send() -> None:
    assert read(replace(command(), flag=ONEWAY))[0].opaque is None


def batch(*texts: str, **fields: Any) -> Command:
    entries = [Entry(number, b"b%d" % number, text.encode()) for number, text in enumerate(texts)]
    more = {"properties": "WAIT\x01true\x02", "body": encode_batch(entries), "batch": True}
    return replace(command(**(more | fields)), code=320)


def test_a_batch_like_others_becomes_several() -> None:
    waiting, puts = read(batch(TEXT, TEXT[:-1]), max_body=1000)
    assert waiting[1:4] == (7, 1, "")
    assert puts == [put(body=b"b0", flag=0), put(body=b"b1", flag=1)]


@pytest.mark.parametrize(
    "asked",
    [
        command(topic="other"),
        command(queue_id=4),
        command(queue_id=-1),
        command(reconsume_times=1),
        command(batch=True),
        command(sys_flag=128),
        command(body=b"x" * 101),
        command(properties=""),
        command(properties=TEXT + "DELAY\x013\x02"),
        command(properties=TEXT.replace(KEY, "")),
        command(properties=TEXT.replace(KEY, "a b")),
        command(properties=TEXT.replace(KEY, "ä")),
        command(properties=TEXT.replace(KEY, "k" * 65)),
        command(properties=TEXT + TEXT),
        command(properties=TEXT.replace("true", "false")),
        command(properties=TEXT + "n\x01ä"),
        replace(command(), header=HeaderKind.BINARY),
        replace(command(), code=11),
        batch(TEXT, TEXT + "DELAY\x013\x02"),
        batch(TEXT, properties="WAIT\x01false\x02"),
        batch(TEXT, properties="UNIQ_KEY\x01\x02"),
        batch(TEXT, "TAGS\x01a\x02"),
        batch(TEXT, TEXT + "n\x01ä"),
        batch(TEXT, body=b""),
        batch(TEXT, body=bytes(40)),
    ],
)
def test_any_other_send_is_left_alone(asked: Command) -> None:
    assert read(asked) is None
    assert read(asked, max_body=1000) is None or len(asked.body) > 100


def test_a_batch_with_a_key_of_its_own_is_answered_by_it() -> None:
    waiting, puts = read(
        batch(TEXT, properties=f"WAIT\x01true\x02UNIQ_KEY\x01{KEY}9"), max_body=1000
    )
    assert waiting[1:4] == (7, 1, f"{KEY}9")
    assert puts == [put(body=b"b0", flag=0)]


def test_keys_of_users_may_differ_from_send_to_send() -> None:
    for keys in ("k", "another", "a b c", "with#mark"):
        text = TEXT.replace("KEYS\x01k", f"KEYS\x01{keys}")
        assert read(command(properties=text))[1] == [put(properties=text.encode() + SUFFIX)]
        texts = [each.properties for each in read(batch(text, TEXT), max_body=1000)[1]]
        assert texts == [text.encode() + SUFFIX, TEXT.encode() + SUFFIX]


@pytest.mark.parametrize("name", [*SPECIAL, "WAIT"])
def test_a_name_that_asks_for_something_is_seen_where_it_starts_a_piece(name: str) -> None:
    assert read(command(properties=f"{name}\x01\x02{TEXT}")) is None
    assert read(command(properties=f"{TEXT}{name}\x01x")) is None
    assert read(batch(TEXT, f"{TEXT}{name}\x011\x02"), max_body=1000) is None
    assert read(batch(TEXT, properties=f"{name}\x011\x02"), max_body=1000) is None
    for harmless in (f"x{name}\x011", f"{name}x\x011", name, f"x\x01{name}\x01"):
        assert read(command(properties=f"{TEXT}{harmless}")) is not None, harmless


def test_the_longest_text_that_is_looked_at_is_read() -> None:
    text = f"UNIQ_KEY\x01{KEY}\x02A\x01"
    text += "x" * (MAX_TEXT_BYTES - len(text))
    assert read(command(properties=text)) is not None
    assert read(command(properties=text + "x")) is None
    assert read(batch(text), max_body=1000) is not None
    assert read(batch(text + "x"), max_body=1000) is None


def test_what_is_not_whole_or_too_long_or_no_frame_is_left() -> None:
    frame = encode_frame(command())
    turn = Turn(plain_sends())
    for data in (frame[:-1], frame[:7], b"", b"\xff" * 40, bytes(40)):
        assert turn.take(data, 0, len(data), 1 << 20, PEER, HOST) == 0
    assert turn.take(frame, 0, len(frame), len(frame) - 1, PEER, HOST) == 0
    assert turn.take(frame, 0, len(frame), len(frame), PEER, HOST) == len(frame)
    assert len(turn) == 1


def test_a_turn_that_took_nothing_keeps_nobody() -> None:
    class Peer:
        pass

    turn, peer = Turn(plain_sends()), Peer()
    plain, other = (encode_frame(each) for each in (command(), command(topic="other")))
    assert turn.take(other, 0, len(other), 1 << 20, cast("Any", peer), HOST) == 0
    assert turn.take(plain, 0, len(plain), 1 << 20, PEER, HOST) == len(plain)
    left = weakref.ref(peer)
    del peer
    assert left() is None
    (waiting,) = turn.asked
    assert waiting.peer == PEER


def test_a_turn_takes_no_more_than_it_should() -> None:
    frame = encode_frame(command(body=bytes(TURN_BYTES // 2)))
    turn = Turn(plain_sends(TURN_BYTES))
    assert turn.take(frame * 5, 0, 5 * len(frame), 1 << 30, PEER, HOST) == 3 * len(frame)
    assert len(turn) == 3
    assert turn.take(frame, 0, len(frame), 1 << 30, PEER, HOST) == 0
    assert len(turn.another()) == 0


SENDS = (
    command(),
    batch(TEXT, TEXT, TEXT),
    command(topic="u", queue_id=0, properties=TEXT[:-1]),
    replace(command(), flag=ONEWAY),
    command(queue_id=2),
    batch(TEXT, topic="u", properties=f"UNIQ_KEY\x01{KEY}"),
    command(topic="t"),
)


def test_sizes_are_told_of_topics_that_have_a_large_message() -> None:
    turn = Turn(plain_sends(8 << 20))
    sizes = (5, 2000, 100_000, 700_000, 1_500_000)
    for size in sizes:
        frame = encode_frame(replace(command(), body=bytes(size)))
        assert turn.take(frame, 0, len(frame), 16 << 20, PEER, HOST) == len(frame)
    frame = encode_frame(batch(TEXT, TEXT))
    turn.take(frame, 0, len(frame), 16 << 20, PEER, HOST)
    turn.encode(Appender(64 << 20, HOST, lambda topic, queue_id: 0, seal=True), 0, 22)
    ((topic, count, _, told),) = turn.tally()
    assert (topic, count) == ("t", 7)
    assert told == [3, 1, 1, 1, 1, 0, 0]
    assert turn.batches == 1


@pytest.mark.parametrize("seal", [True, False])
@pytest.mark.parametrize("host", [HOST, bytes(range(20))])
@pytest.mark.parametrize("odd", [None, 0, 3, 7])
def test_records_and_answers_are_those_of_the_general_path(
    seal: bool, host: bytes, odd: int | None
) -> None:
    """Whatever somebody else picked apart among them."""
    known = plain_sends(1000)
    known.queues["u"] = 4
    turn = Turn(known)
    appender = Appender(1 << 20, host, lambda topic, queue_id: 100 * queue_id, seal=seal)
    frames = [encode_frame(each) for each in SENDS]
    groups: list[list[Put]] = []
    for number, (asked, frame) in enumerate(zip(SENDS, frames, strict=True)):
        if number == odd:
            turn.keep([put(topic="v")], PEER, 9, 1, "", b"x", (0, 0, 1))
            groups.append([put(topic="v")])
        turn.take(frame, 0, len(frame), 1 << 20, PEER, host)
        fields = asked.fields
        texts = [TEXT.encode() + SUFFIX] * (3 if number == 1 else 1)
        groups.append(
            [
                put(
                    topic=fields["b"],
                    queue_id=int(fields["e"]),
                    body=b"hello" if asked.code == 310 else b"b%d" % each,
                    flag=5 if asked.code == 310 else each,
                    properties=text,
                    born_host=host,
                )
                for each, text in enumerate(texts)
            ]
        )
    expected = appender.encode(groups, 4096, 22)
    found = turn.encode(appender, 4096, 22)
    assert found._replace(placed=None) == expected._replace(placed=None)
    assert expected.placed is not None
    counts = {"t": 7, "u": 2} | ({} if odd is None or odd > 6 else {"v": 1})
    assert {topic: count for topic, count, *_ in turn.tally()} == counts
    assert sum(size for *_, size, _ in turn.tally()) == found.end - 4096
    told = b"".join(frame for _, frame in turn.answers(10, b"0A", b'"tail":""'))
    answers = [
        decode_frame(told, bounds_at(told, at, len(told))) for at, _, _ in scan(told, 0, len(told))
    ]
    assert len(answers) == len(groups) - 1
    batched = answers[1 if odd is None or odd > 1 else 2]
    placed = next(each for each in expected.placed if len(each) == 3)
    assert batched.code == 10
    assert batched.fields["msgId"] == ",".join(f"0A{each.log_offset:016X}" for each in placed)
    assert batched.fields["queueOffset"] == str(placed[0].queue_offset)


def test_records_go_on_in_the_next_segment() -> None:
    """Wherever the segment ends: within a batch, between sends, or before the first of them."""
    known = plain_sends(1000)
    frames = b"".join(
        encode_frame(each) for each in (command(), batch(TEXT, TEXT, TEXT), command())
    )
    groups = [[put()], [put(body=b"b%d" % each, flag=each) for each in range(3)], [put()]]
    appender = Appender(4096, HOST, lambda topic, queue_id: 7, seal=True)
    whole = appender.encode(groups, 0, 22).end
    cuts = set()
    for start in range(4096 - whole, 4096 - 8):
        turn = Turn(known)
        turn.take(frames, 0, len(frames), 1 << 20, PEER, HOST)
        found = turn.encode(appender, start, 22)
        assert found._replace(placed=None) == appender.encode(groups, start, 22)._replace(
            placed=None
        )
        cuts.add(len(found.chunks[0][1]))
    assert len(cuts) == 5  # each of five is the first behind it
