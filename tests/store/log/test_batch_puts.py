"""A batch becomes puts only where each of its messages is of a known kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from tests.twins import WAYS, each_way

from rocketpipe.record.batch import encode_batch
from rocketpipe.store.log.batch_puts import puts_of_batch
from rocketpipe.store.log.puts import Put

KEY = b"7F0000010001" + b"A" * 20
HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
KNOWN = b"WAIT\x01true\x02"


@pytest.fixture(autouse=True, scope="module", params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[None]:
    with each_way(request.param, sys.modules[__name__]):
        yield


def properties(head: bytes = KNOWN, key: bytes = KEY) -> bytes:
    return head + b"UNIQ_KEY\x01" + key + b"\x02"


def puts(*messages: tuple[int, bytes, bytes], max_bytes: int = 1 << 20) -> list[Put] | None:
    batch = encode_batch(messages)
    return puts_of_batch(batch, max_bytes, {KNOWN}, "T", 3, 0, 5, HOST, b"S\x01s\x02")


def test_each_message_of_a_known_kind_becomes_a_put() -> None:
    made = puts((7, b"one", properties()), (0, b"", properties()))
    assert made is not None
    assert [type(put) for put in made] == [Put, Put]
    assert made[0] == Put("T", 3, b"one", properties() + b"S\x01s\x02", 7, 0, 5, HOST, 0, 0)
    assert made[1].body == b""


@pytest.mark.parametrize(
    "odd",
    [
        properties(head=b"TAGS\x01a\x02"),
        properties(key=KEY[:-1]),
        properties(key=KEY[:-1] + b"#"),
        KNOWN,
        b"",
    ],
)
def test_one_message_of_another_kind_leaves_the_batch_to_others(odd: bytes) -> None:
    assert puts((0, b"one", properties()), (0, b"two", odd)) is None


def test_a_batch_beyond_the_limit_is_left_to_others() -> None:
    assert puts((0, b"x" * 100, properties()), max_bytes=100) is None
