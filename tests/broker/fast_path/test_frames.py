"""A plain send picked apart in one go."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.broker.fast_path.frames import MAX_REST_BYTES, Plain, cut_key, read_plain
from rocketpipe.model.flags import BORN_HOST_V6
from rocketpipe.protocol.command import ONEWAY, Command, HeaderKind
from rocketpipe.protocol.frame import bounds_at, encode_frame
from rocketpipe.protocol.request import to_command
from rocketpipe.protocol.requests.sending import SendMessage
from rocketpipe.store.log.puts import Put

KEY = "7F0000010001" + "0" * 20
TEXT = f"KEYS\x01k\x02UNIQ_KEY\x01{KEY}\x02TAGS\x01a\x02WAIT\x01true\x02"
HOST = bytes((10, 0, 0, 3, 0, 0, 195, 81))
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


def read(asked: Command, *, host: bytes = HOST, max_body: int = 100, before: int = 3) -> Any:
    frame = bytes(before) + encode_frame(asked) + b"behind"
    bounds = bounds_at(frame, before, len(frame))
    assert bounds is not None
    rests = {cut_key(TEXT.encode())[0], cut_key(TEXT[:-1].encode())[0]}
    place = (before, bounds.body, bounds.end)
    return read_plain(frame, *place, {"t": 4}, rests, SUFFIX, max_body, host)


def put(**changes: Any) -> Put:
    plain = Put("t", 1, b"hello", TEXT.encode() + SUFFIX, 5, 0, 1_700_000_000_000, HOST)
    return plain._replace(**changes)


def test_a_send_like_others_becomes_what_to_append() -> None:
    expected: Plain = (7, 1, KEY, put())
    assert read(command()) == expected
    assert type(read(command())[3]) is Put


def test_what_a_record_may_not_have_is_left_out() -> None:
    wide = bytes(20)
    found = read(command(sys_flag=1 | 4 | 8 | 16 | 32), host=wide)
    assert found[3] == put(sys_flag=1 | BORN_HOST_V6, born_host=wide)


def test_properties_end_before_what_is_added() -> None:
    assert read(command(properties=TEXT[:-1]))[3] == put()


def test_nobody_waits_for_the_answer_to_a_oneway_send() -> None:
    assert read(replace(command(), flag=ONEWAY))[0] is None


@pytest.mark.parametrize(
    "asked",
    [
        command(topic="other"),
        command(queue_id=4),
        command(queue_id=-1),
        command(reconsume_times=1),
        command(batch=True),
        command(body=b"x" * 101),
        command(properties=""),
        command(properties=TEXT + "DELAY\x013\x02"),
        command(properties=TEXT.replace(KEY, "")),
        command(properties=TEXT.replace(KEY, "a b")),
        command(properties=TEXT.replace(KEY, "ä")),
        command(properties=TEXT.replace(KEY, "k" * 65)),
        replace(command(), header=HeaderKind.BINARY),
        replace(command(), code=320),
        replace(command(), code=11),
    ],
)
def test_any_other_send_is_left_to_the_lane(asked: Command) -> None:
    assert read(asked) is None


def test_a_key_is_cut_out_where_its_name_starts_a_piece() -> None:
    assert cut_key(b"UNIQ_KEY\x01k\x02TAGS\x01a\x02") == (b"UNIQ_KEY\x01\x02TAGS\x01a\x02", b"k")
    assert cut_key(b"a\x01b\x02UNIQ_KEY\x01k") == (b"a\x01b\x02UNIQ_KEY\x01", b"k")
    assert cut_key(b"xUNIQ_KEY\x01k\x02") == (b"xUNIQ_KEY\x01k\x02", b"")
    assert cut_key(b"") == (b"", b"")


def test_the_longest_text_that_is_remembered_is_read() -> None:
    text = f"UNIQ_KEY\x01{KEY}\x02A\x01".encode()
    text += b"x" * (MAX_REST_BYTES - len(cut_key(text)[0]))
    frame = encode_frame(command(properties=text.decode()))
    bounds = bounds_at(frame, 0, len(frame))
    assert bounds is not None
    known = ({"t": 4}, {cut_key(text)[0]}, SUFFIX, 100, HOST)
    found = read_plain(frame, 0, bounds.body, bounds.end, *known)
    assert found is not None
    assert found[3].properties == text + b"\x02" + SUFFIX
